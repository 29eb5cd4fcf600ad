# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw random numbers that are the same on every machine and in every version of NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


class RawStream:
    """Draw uniform numbers in 0..1 from PCG64's raw 64-bit output."""

    def __init__(self, *seed: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seed))

    def uniform(self, *shape: int) -> Float:
        """Draw numbers in 0..1."""
        raw = self._bits.random_raw(int(np.prod(shape)))
        return (raw >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53

    def symmetric(self, bound: float, *shape: int) -> Float:
        """Draw numbers in -bound..bound."""
        return (2 * self.uniform(*shape) - 1) * bound
