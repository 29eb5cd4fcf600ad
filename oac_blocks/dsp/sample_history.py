# SPDX-License-Identifier: GPL-3.0-or-later
"""The latest samples of a stream without an end, found by their place in it, and where it is silent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.complex64]
LARGEST_AMPLITUDE = 1e12  # energies of spectra must still be float32; full scale is 1
_CELL = 256  # samples that are loud or silent together


class SampleHistory:
    """Holds what was pushed since ``forget``, and ``reach`` zeros before the stream's sample 0."""

    def __init__(self, reach: int) -> None:
        cells = -(-reach // _CELL)
        self._first = -cells * _CELL  # place of the buffer's first sample: a multiple of a cell
        self._end = 0
        self._kept = self._first
        self._buffer = np.zeros(cells * _CELL, np.complex64)
        self._loud = np.zeros(cells, np.bool_)

    def push(self, samples: Samples) -> int:
        """Take the next samples. Those that are NaN, infinite or absurdly large become silence: how many these were."""
        if not len(samples):
            return 0
        self._make_room(len(samples))
        begin, end = self._end - self._first, self._end - self._first + len(samples)
        cells = slice(begin // _CELL, -(-end // _CELL))
        self._buffer[begin:end] = samples
        self._buffer[end : cells.stop * _CELL] = 0
        self._end += len(samples)
        high, low = self._extremes(cells)
        bad = 0
        # NaN is neither above nor below, hence "not within".
        if not (high.max() < LARGEST_AMPLITUDE and low.min() > -LARGEST_AMPLITUDE):
            bad = _silence_bad(self._buffer[begin:end])
            high, low = self._extremes(cells)
        self._loud[cells] = (high > 0) | (low < 0)
        return bad

    def forget(self, before: int) -> None:
        """Nobody will ask for samples before this place any more."""
        self._kept = max(self._kept, before)

    def any_loud(self, places: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.bool_]:
        """Whether there may be anything but zeros in the ``length`` samples from each place on."""
        loud_before = np.concatenate(([0], np.cumsum(self._loud)))
        first = (places - self._first) // _CELL
        last = (places - self._first + length - 1) // _CELL
        return np.asarray(loud_before[last + 1] > loud_before[first])

    def windows(self, places: npt.NDArray[np.int64], length: int) -> Samples:
        """Copies of the ``length`` samples from each place on, (places, length)."""
        rows = np.empty((len(places), length), np.complex64)
        for row, place in zip(rows, (places - self._first).tolist(), strict=True):
            row[:] = self._buffer[place : place + length]
        return rows

    def _extremes(self, cells: slice) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        parts = self._buffer[cells.start * _CELL : cells.stop * _CELL].view(np.float32).reshape(-1, 2 * _CELL)
        return parts.max(axis=1), parts.min(axis=1)

    def _make_room(self, samples: int) -> None:
        needed = -(-(self._end - self._first + samples) // _CELL) * _CELL
        if needed <= len(self._buffer):
            return
        old = (self._kept - self._first) // _CELL
        used = -(-(self._end - self._first) // _CELL)
        buffer, loud = self._buffer, self._loud
        needed -= old * _CELL
        if needed > len(buffer):
            # Twice what is needed: moving the rest to the front is then worth one copy of each sample.
            self._buffer = np.zeros(2 * needed, np.complex64)
            self._loud = np.zeros(2 * needed // _CELL, np.bool_)
        self._buffer[: (used - old) * _CELL] = buffer[old * _CELL : used * _CELL]
        self._loud[: used - old] = loud[old:used]
        self._loud[used - old :] = False
        self._first += old * _CELL


def _silence_bad(samples: Samples) -> int:
    with np.errstate(invalid="ignore"):
        bad = ~((np.abs(samples.real) < LARGEST_AMPLITUDE) & (np.abs(samples.imag) < LARGEST_AMPLITUDE))
    samples[bad] = 0
    return int(np.count_nonzero(bad))
