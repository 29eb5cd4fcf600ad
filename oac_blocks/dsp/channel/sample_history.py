# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the latest samples of an endless stream, addressed by their position in it, and know where it is silent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.complex64]
# Larger components count as bad samples: above it the energies of spectra overflow float32 (full scale is 1).
LARGEST_AMPLITUDE = 1e12
_CELL = 256  # samples in a cell, the unit in which the history notes silence


class SampleHistory:
    """Hold the samples since the position given to ``forget``, and ``reach`` zeros before sample 0 of the stream."""

    def __init__(self, reach: int) -> None:
        from oac_blocks.dsp.channel import stream_kernels  # here, because it loads the compiler

        self._kernels = stream_kernels
        cells = -(-reach // _CELL)
        self._first = -cells * _CELL  # position of the buffer's first sample, a multiple of _CELL
        self._end = 0
        self._kept = self._first
        self._buffer = np.zeros(cells * _CELL, np.complex64)
        self._loud = np.zeros(cells, np.bool_)

    def push(self, samples: Samples) -> int:
        """Append samples, replace NaN, infinite and very large ones with zeros, and return how many those were."""
        if not len(samples):
            return 0
        self._make_room(len(samples))
        begin, end = self._end - self._first, self._end - self._first + len(samples)
        self._buffer[begin:end] = samples
        self._buffer[end : -(-end // _CELL) * _CELL] = 0
        self._end += len(samples)
        limit = np.float32(LARGEST_AMPLITUDE)
        return int(self._kernels.find_loud(self._buffer.view(np.float32), begin, end, limit, self._loud))

    def forget(self, before: int) -> None:
        """Allow the history to drop the samples before this position."""
        self._kept = max(self._kept, before)

    def any_loud(self, places: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.bool_]:
        """Return for each position whether the ``length`` samples from there on may hold anything but zeros."""
        loud_before = np.concatenate(([0], np.cumsum(self._loud)))
        first = (places - self._first) // _CELL
        last = (places - self._first + length - 1) // _CELL
        return np.asarray(loud_before[last + 1] > loud_before[first])

    def windows(self, places: npt.NDArray[np.int64], length: int) -> Samples:
        """Return copies of the ``length`` samples from each position on, an array of shape (positions, length)."""
        rows = np.empty((len(places), length), np.complex64)
        for row, place in zip(rows, (places - self._first).tolist(), strict=True):
            row[:] = self._buffer[place : place + length]
        return rows

    def _make_room(self, samples: int) -> None:
        needed = -(-(self._end - self._first + samples) // _CELL) * _CELL
        if needed <= len(self._buffer):
            return
        old = (self._kept - self._first) // _CELL
        used = -(-(self._end - self._first) // _CELL)
        buffer, loud = self._buffer, self._loud
        needed -= old * _CELL
        if needed > len(buffer):
            # The new buffer has twice the needed size, so that on average each sample is copied to the front only once.
            self._buffer = np.zeros(2 * needed, np.complex64)
            self._loud = np.zeros(2 * needed // _CELL, np.bool_)
        self._buffer[: (used - old) * _CELL] = buffer[old * _CELL : used * _CELL]
        self._loud[: used - old] = loud[old:used]
        self._loud[used - old :] = False
        self._first += old * _CELL
