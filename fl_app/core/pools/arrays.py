# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the largest and the oldest entries with numpy alone: masks are arrays of booleans.

This is the plain way, and the one for small models: it needs no compiled code. `BitPool` marks the same entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.pools.pool import Pool, negative_age, unordered

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]


def top_mask(values: NDArray[Any], count: int, rng: np.random.Generator) -> Mask:
    """Mark the `count` largest values; equal values at the threshold have equal chances."""
    if count == 0:
        return np.zeros(values.size, np.bool_)
    if count == values.size:
        return np.ones(values.size, np.bool_)
    threshold = np.partition(values, values.size - count)[values.size - count]
    marked = values > threshold
    tied = np.flatnonzero(values == threshold)
    places = count - np.count_nonzero(marked)
    marked[draw(tied, places, rng)] = True
    return marked


def oldest_mask(age: NDArray[Any], count: int, rng: np.random.Generator, taken: Mask | None = None) -> Mask:
    """Mark the `count` oldest entries that are not taken; equal ages have equal chances.

    Ages are small integers, so that counting suffices and no sort is needed.
    """
    if count == 0:
        return np.zeros(age.size, np.bool_)
    if age.max() > age.size:
        age = np.unique(age, return_inverse=True)[1]  # same order as before, and counting stays O(d) for any age
    with_age = np.bincount(age)
    if taken is not None:
        with_age -= np.bincount(age[taken], minlength=with_age.size)
    at_least = np.cumsum(with_age[::-1])[::-1]
    threshold = np.flatnonzero(at_least >= count)[-1]
    marked, at_threshold = age > threshold, age == threshold
    if taken is not None:
        marked &= ~taken
        at_threshold &= ~taken
    places = count - (int(at_least[threshold]) - int(with_age[threshold]))
    marked[draw(np.flatnonzero(at_threshold), places, rng)] = True
    return marked


def draw(candidates: Any, count: int, rng: np.random.Generator) -> Any:
    """Draw `count` different candidates of an array or a tensor; every subset has the same probability."""
    if count == len(candidates):
        return candidates
    return candidates[rng.choice(len(candidates), count, replace=False, shuffle=False)]


class ArrayPool(Pool):
    """Mark entries of numpy arrays of any numeric type."""

    def __init__(self, g: NDArray[Any], age: NDArray[Any], rng: np.random.Generator) -> None:
        if age.min() < 0:
            raise negative_age(age.min())
        self.magnitude, self.age, self.rng = np.abs(g), age, rng
        if np.isnan(self.magnitude).any():
            raise unordered(np.count_nonzero(np.isnan(self.magnitude)), g.size)

    def everything(self) -> Mask:
        return np.ones(self.age.size, np.bool_)

    def others(self, mask: Mask) -> Mask:
        return ~mask

    def largest(self, count: int) -> Mask:
        return top_mask(self.magnitude, count, self.rng)

    def oldest(self, count: int, among: Mask) -> Mask:
        return oldest_mask(self.age, count, self.rng, taken=~among)

    def random(self, count: int, among: Mask) -> Mask:
        mask = np.zeros(self.age.size, np.bool_)
        mask[draw(np.flatnonzero(among), count, self.rng)] = True
        return mask

    def indices(self, mask: Mask) -> Indices:
        return np.flatnonzero(mask).astype(np.int64, copy=False)
