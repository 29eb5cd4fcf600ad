# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw a random subset as bits: the subset that numpy's ``Generator.choice`` draws, with a tenth of its memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl_app.core.pools import kernels
from fl_app.core.pools.kernels import Words

_CHUNK = 1 << 16  # random numbers that are drawn at a time
_SMALL = 10_000  # numpy's choice draws by Floyd's way from at most so many numbers,
_SPARSE = 20  # and wherever it takes at most one of so many


def draw_bits(n: int, count: int, rng: np.random.Generator) -> Words:
    """Return bits of which `count` of the first n are set, 0 < count < n; each subset has the same probability.

    Subset and state of the generator afterwards are those of ``rng.choice(n, count, replace=False, shuffle=False)``,
    which would take 8 n bytes where it takes more than a twentieth of the numbers.
    """
    ranks = np.full(-(-n // 64), 0, np.uint64)
    first, drawn = n - count, 0
    if n >= 1 << 32:  # numpy draws these from 64 bits
        kernels.mark(rng.choice(n, count, replace=False, shuffle=False), ranks)
        return ranks
    if n <= _SMALL or count <= n // _SPARSE:
        while drawn < count:
            drawn += kernels.draw_without_repeats(_raw(count - drawn, rng), first + drawn, ranks)
        return ranks
    tail = np.arange(first, n, dtype=np.uint32)
    moved = np.full(1 << (3 * min(count, first) // 2).bit_length(), 0, np.uint64)  # at most two thirds are filled
    while drawn < count:
        drawn += kernels.draw_by_swaps(_raw(count - drawn, rng), n - 1 - drawn, first, tail, moved)
    kernels.mark(tail, ranks)
    return ranks


def _raw(count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Return the next 32 random bits, `count` times at most: a bounded number takes them once, or again."""
    return rng.integers(0, 1 << 32, min(count, _CHUNK), np.uint32)
