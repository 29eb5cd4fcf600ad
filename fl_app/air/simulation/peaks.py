# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the peaks of the clients' symbols: the 99 % point of the PMEPR over a bounded sample of symbols."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.simulation.precoding import Precoding
from fl_app.air.simulation.threads import in_order
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.numerology import Numerology

_SYMBOLS_A_ROUND = 1024  # symbols per round; each costs an oversampled FFT
_POINT = 0.99  # quantile of the PMEPR; the few hundred symbols of a round show no higher one
_SYMBOLS_AT_ONCE = 256  # symbols that one thread transforms together
_OVERSAMPLING = 4  # points of the envelope between two samples that a peak may hide in


class PeakMeter:
    """Take an equal share of the sample from each of ``n_grids`` grids."""

    def __init__(self, num: Numerology, n_grids: int) -> None:
        self._num = num
        self._share = max(1, _SYMBOLS_A_ROUND // n_grids)
        self._seen: list[npt.NDArray[np.complex64]] = []
        self._left = _SYMBOLS_A_ROUND

    def look_at(self, grid: npt.NDArray[np.complex64], precoding: Precoding | None = None) -> None:
        """Take symbols that are spread evenly over a grid (symbols, active), as the client's precoding sends them."""
        take = min(self._share, self._left, len(grid))
        if take == 0:
            return
        rows = np.arange(take) * len(grid) // take
        self._seen.append(grid[rows] if precoding is None else precoding.apply(grid, rows))
        self._left -= take

    def db(self) -> float | None:
        """Return the 99 % point in dB; ``None`` if all symbols were empty because all clients abstained."""
        return high_point_db(np.concatenate(self._seen), self._num)


def high_point_db(grid: npt.NDArray[np.complex64], num: Numerology) -> float | None:
    """Return the 99 % point of the PMEPR of a grid's symbols without the empty ones; ``None`` if all are empty."""
    some = [grid[start : start + _SYMBOLS_AT_ONCE] for start in range(0, len(grid), _SYMBOLS_AT_ONCE)]
    peaks = np.concatenate(in_order(lambda part: ofdm.pmepr_db(part, num, _OVERSAMPLING), some))
    peaks = peaks[~np.isnan(peaks)]
    return float(np.quantile(peaks.astype(np.float64), _POINT)) if len(peaks) else None
