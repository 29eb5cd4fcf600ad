# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the peaks of the clients' symbols: the 99 % point of the PMEPR over a bounded sample of symbols."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.simulation.threads import in_order
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.numerology import Numerology

_SYMBOLS_A_ROUND = 1024  # symbols per round; each costs a fourfold oversampled FFT
_POINT = 0.99  # quantile of the PMEPR; the few hundred symbols of a round show no higher one
_SYMBOLS_AT_ONCE = 256  # symbols that one thread transforms together
_ROUNDING_DB = 0.01  # margin for the rounding of float32, far above it


class PeakMeter:
    """Take an equal share of the sample from each of ``n_grids`` grids."""

    def __init__(self, num: Numerology, n_grids: int) -> None:
        self._num = num
        self._share = max(1, _SYMBOLS_A_ROUND // n_grids)
        self._seen: list[npt.NDArray[np.complex64]] = []
        self._left = _SYMBOLS_A_ROUND

    def look_at(self, grid: npt.NDArray[np.complex64]) -> None:
        """Take symbols that are spread evenly over a grid (symbols, active)."""
        take = min(self._share, self._left, len(grid))
        if take == 0:
            return
        self._seen.append(grid[np.arange(take) * len(grid) // take])
        self._left -= take

    def db(self) -> float | None:
        """Return the 99 % point in dB; ``None`` if all symbols were empty because all clients abstained."""
        return high_point_db(np.concatenate(self._seen), self._num)


def high_point_db(grid: npt.NDArray[np.complex64], num: Numerology) -> float | None:
    """Return the 99 % point of the PMEPR of a grid's symbols without the empty ones.

    Only the highest symbols matter. Twofold oversampling shows the peak of each symbol up to the bound below, at half
    the cost. Only the symbols that could be among the highest are measured with fourfold oversampling.
    """
    lower = _pmepr_db(grid, num, 2)
    kept = ~np.isnan(lower)
    grid, lower = grid[kept], lower[kept]
    if not len(lower):
        return None
    rank = _POINT * (len(lower) - 1)
    first = int(rank)  # in ascending order; the point lies between this symbol and the next
    # The k-th highest peak is at least the k-th highest of the lower bounds. A symbol that cannot reach it does not
    # matter.
    at_least = np.partition(lower, first)[first]
    high = lower + _missed_db(num, 2) + _ROUNDING_DB >= at_least
    peaks = np.sort(_pmepr_db(grid[high], num, 4))
    top = peaks[first - len(lower) :].astype(np.float64)
    return float(np.interp(rank - first, np.arange(len(top)), top))


def _missed_db(num: Numerology, oversampling: int) -> float:
    """Return how far a symbol's envelope can rise between samples, in dB.

    The envelope is a polynomial of tones up to a degree m. If it is at most 1 at n equally spaced points, it is nowhere
    above 1 / cos(pi m / n).
    """
    degree, points = (num.active_subcarriers + num.dc_nulls) / 2, oversampling * num.fft_size
    return float(-20 * np.log10(np.cos(np.pi * degree / points)))


def _pmepr_db(grid: npt.NDArray[np.complex64], num: Numerology, oversampling: int) -> npt.NDArray[np.float32]:
    some = [grid[start : start + _SYMBOLS_AT_ONCE] for start in range(0, len(grid), _SYMBOLS_AT_ONCE)]
    return np.concatenate(in_order(lambda part: ofdm.pmepr_db(part, num, oversampling), some))
