# SPDX-License-Identifier: GPL-3.0-or-later
"""How high do the clients' symbols peak? The 99.9 % point of the PMEPR over a bounded sample of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.simulation.threads import in_order
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.numerology import Numerology

_SYMBOLS_A_ROUND = 1024  # enough for a 99.9 % point; each costs a fourfold oversampled FFT
_POINT = 0.999
_SYMBOLS_AT_ONCE = 256
_ROUNDING_DB = 0.01  # of float32, by far


class PeakMeter:
    """Takes an equal share of its sample from each of ``n_grids`` grids."""

    def __init__(self, num: Numerology, n_grids: int) -> None:
        self._num = num
        self._share = max(1, _SYMBOLS_A_ROUND // n_grids)
        self._seen: list[npt.NDArray[np.complex64]] = []
        self._left = _SYMBOLS_A_ROUND

    def look_at(self, grid: npt.NDArray[np.complex64]) -> None:
        """Symbols spread evenly over a grid (symbols, active)."""
        take = min(self._share, self._left, len(grid))
        if take == 0:
            return
        self._seen.append(grid[np.arange(take) * len(grid) // take])
        self._left -= take

    def db(self) -> float | None:
        """``None`` if all symbols were empty: everybody abstained."""
        return high_point_db(np.concatenate(self._seen), self._num)


def high_point_db(grid: npt.NDArray[np.complex64], num: Numerology) -> float | None:
    """The 99.9 % point of the PMEPR of a grid's symbols, empty ones left out.

    Only the highest symbols matter. Twofold oversampling shows each one's peak up to the bound below, at half the cost;
    only those that could be among the highest are looked at with four.
    """
    lower = _pmepr_db(grid, num, 2)
    kept = ~np.isnan(lower)
    grid, lower = grid[kept], lower[kept]
    if not len(lower):
        return None
    rank = _POINT * (len(lower) - 1)
    first = int(rank)  # in ascending order; the point lies between this one and the next
    # The k-th highest peak is at least the k-th highest of the lower bounds: who cannot reach it does not matter.
    at_least = np.partition(lower, first)[first]
    high = lower + _missed_db(num, 2) + _ROUNDING_DB >= at_least
    peaks = np.sort(_pmepr_db(grid[high], num, 4))
    top = peaks[first - len(lower) :].astype(np.float64)
    return float(np.interp(rank - first, np.arange(len(top)), top))


def _missed_db(num: Numerology, oversampling: int) -> float:
    """How far a symbol's envelope can rise between samples: it is a polynomial of tones up to a degree m.

    Such a polynomial that is at most 1 at n equally spaced points is nowhere above 1 / cos(pi m / n).
    """
    degree, points = (num.active_subcarriers + num.dc_nulls) / 2, oversampling * num.fft_size
    return float(-20 * np.log10(np.cos(np.pi * degree / points)))


def _pmepr_db(grid: npt.NDArray[np.complex64], num: Numerology, oversampling: int) -> npt.NDArray[np.float32]:
    some = [grid[start : start + _SYMBOLS_AT_ONCE] for start in range(0, len(grid), _SYMBOLS_AT_ONCE)]
    return np.concatenate(in_order(lambda part: ofdm.pmepr_db(part, num, oversampling), some))
