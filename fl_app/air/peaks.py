# SPDX-License-Identifier: GPL-3.0-or-later
"""How high do the clients' symbols peak? The 99.9 % point of the PMEPR over a bounded sample of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp import ofdm
from oac_blocks.dsp.numerology import Numerology

_SYMBOLS_A_ROUND = 1024  # enough for a 99.9 % point; each costs a fourfold oversampled FFT


class PeakMeter:
    """Takes an equal share of its sample from each of ``n_grids`` grids."""

    def __init__(self, num: Numerology, n_grids: int) -> None:
        self._num = num
        self._share = max(1, _SYMBOLS_A_ROUND // n_grids)
        self._seen: list[npt.NDArray[np.float32]] = []
        self._left = _SYMBOLS_A_ROUND

    def look_at(self, grid: npt.NDArray[np.complex64]) -> None:
        """Symbols spread evenly over a grid (symbols, active)."""
        take = min(self._share, self._left, len(grid))
        if take == 0:
            return
        chosen = np.arange(take) * len(grid) // take
        self._seen.append(ofdm.pmepr_db(grid[chosen], self._num))
        self._left -= take

    def db(self) -> float | None:
        """``None`` if all symbols were empty: everybody abstained."""
        seen = np.concatenate(self._seen)
        seen = seen[~np.isnan(seen)]
        return float(np.quantile(seen, 0.999)) if seen.size else None
