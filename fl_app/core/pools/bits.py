# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the largest and the oldest entries of large models in a few passes over the memory: masks are bits.

A sample of the keys gives a bracket that holds the threshold almost surely. One pass marks the entries above the
bracket and those inside; a partition of the few keys inside gives the threshold itself. If the sample was misleading,
the bracket is the whole range, and histograms narrow it down. So the result is exact in any case: the sample decides
its time alone.
Besides g and the ages this takes some bits for each entry, and some bytes for each one that is selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.ages import Ages
from fl_app.core.pools import kernels
from fl_app.core.pools.draws import draw_bits
from fl_app.core.pools.kernels import Words
from fl_app.core.pools.pool import Pool, negative_age, unordered

_SAMPLE = 1 << 16  # entries that are looked at for the bracket
_DEVIATIONS = 3.0  # half of the bracket, in standard deviations of the sample's quantile
_BINS_LOG2 = 16  # bins of a histogram: as many as fit the second-level cache
_MOST_COLLECTED = 1 / 16  # share of the entries whose keys are collected for a partition, at most


@dataclass(frozen=True, eq=False)
class Keys:
    """Order entries by ``(stored & mask) ^ flip``; a key above `top` belongs to a number that cannot be ordered."""

    stored: NDArray[Any]
    mask: int
    flip: int
    top: int

    @classmethod
    def of_magnitudes(cls, g: NDArray[Any]) -> Keys:
        stored, infinity = _unsigned(g), _unsigned(np.array([np.inf], g.dtype))
        return cls(stored, _highest(stored) >> 1, 0, int(infinity[0]))

    @classmethod
    def of_ages(cls, age: NDArray[Any]) -> Keys:
        stored = _unsigned(age)
        return cls(stored, _highest(stored), 0, int(np.iinfo(age.dtype).max))

    @classmethod
    def of_rounds(cls, last: NDArray[Any]) -> Keys:
        return cls(last, _highest(last), _highest(last), _highest(last))

    def typed(self, *numbers: int) -> tuple[Any, ...]:
        """Return mask, flip and further keys in the type of the stored numbers, as kernels take them."""
        return tuple(map(self.stored.dtype.type, (self.mask, self.flip, *numbers)))

    def blocks(self) -> Iterator[tuple[NDArray[Any], slice]]:
        """Yield the stored numbers of all whole words of 64, then those of the last word, filled up with zeros."""
        whole = self.stored.size // 64
        yield self.stored[: 64 * whole], slice(0, whole)
        rest = self.stored[64 * whole :]
        if rest.size:
            yield np.pad(rest, (0, 64 - rest.size)), slice(whole, None)

    def sample(self, among: Words) -> NDArray[Any]:
        """Return the keys of some entries of a mask, evenly spread with a jitter against periodic models."""
        step = max(1, self.stored.size // _SAMPLE)
        places = np.arange(0, self.stored.size, step)
        places = np.minimum(places + np.random.default_rng(0).integers(0, step, places.size), self.stored.size - 1)
        marked = (among[places >> 6] >> (places & 63).astype(np.uint64)) & np.uint64(1) != 0
        mask, flip = self.typed()
        return (self.stored[places[marked]] & mask) ^ flip


class BitPool(Pool):
    """Mark entries by compiled loops over floating-point g and integer ages."""

    def __init__(self, g: NDArray[Any], age: NDArray[Any] | Ages, rng: np.random.Generator) -> None:
        self.g, self.age, self.rng = g, age, rng
        self._magnitudes = Keys.of_magnitudes(g)
        self._seniority = Keys.of_rounds(age.last) if isinstance(age, Ages) else Keys.of_ages(age)
        self._unseen = {self._seniority, self._magnitudes}  # keys that no pass has checked so far

    def everything(self) -> Words:
        words = np.full(-(-self.g.size // 64), ~np.uint64(0))
        if self.g.size % 64:
            words[-1] = (1 << self.g.size % 64) - 1
        return words

    def others(self, mask: Words) -> Words:
        return self.everything() & ~mask

    def largest(self, count: int) -> Words:
        return self._top(self._magnitudes, count, self.everything())

    def oldest(self, count: int, among: Words) -> Words:
        return self._top(self._seniority, count, among)

    def random(self, count: int, among: Words) -> Words:
        return self._draw(among, kernels.count(among), count, np.zeros_like(among))

    def indices(self, mask: Words) -> NDArray[np.int64]:
        for keys in tuple(self._unseen):
            self._split(keys, keys.top, keys.top, mask)
        result = np.empty(kernels.count(mask), np.int64)
        kernels.positions(mask, result)
        return result

    def _top(self, keys: Keys, count: int, among: Words) -> Words:
        """Mark the `count` largest keys of a mask; equal keys at the threshold have equal chances."""
        if count == 0:
            return np.zeros_like(among)
        lo, hi = self._bracket(keys, count, among)
        above, inside, n_above, n_inside = self._split(keys, lo, hi, among)
        if not n_above < count <= n_above + n_inside:
            lo, hi = 0, keys.top
            above, inside, n_above, n_inside = self._split(keys, lo, hi, among)
        while lo < hi and n_inside > max(_SAMPLE, _MOST_COLLECTED * self.g.size):
            shift = max(0, (hi - lo).bit_length() - _BINS_LOG2)
            bins = _histogram(keys, inside, lo, shift, ((hi - lo) >> shift) + 1)
            lo += _highest_bin(bins, count - n_above) << shift
            hi = min(hi, lo + (1 << shift) - 1)
            above, inside, n_above, n_inside = self._split(keys, lo, hi, among)
        if lo < hi and n_above + n_inside > count:
            found = np.empty(n_inside, keys.stored.dtype)
            kernels.collect(keys.stored, *keys.typed(), inside, found)
            rank = n_inside - (count - n_above)
            moved, n_inside = kernels.settle(found, np.partition(found, rank)[rank], above, inside)
            n_above += moved
        return self._draw(inside, n_inside, count - n_above, above)

    def _bracket(self, keys: Keys, count: int, among: Words) -> tuple[int, int]:
        """Return two keys between which the key of rank `count` lies, exactly if ages come with their counts."""
        population = kernels.count(among)
        if keys is self._seniority and isinstance(self.age, Ages):
            return self._age_threshold(self.age, keys, count, among, population)
        sample = keys.sample(among)
        rank, last = sample.size * (1 - count / population), sample.size - 1
        margin = _DEVIATIONS * (rank * count / population) ** 0.5 + 2
        lo, hi = max(0, int(rank - margin)), min(last, int(rank + margin))
        if last < 0:
            return 0, keys.top
        ordered = np.partition(sample, (lo, hi))
        return int(ordered[lo]) if lo else 0, int(ordered[hi]) if hi < last else keys.top

    def _age_threshold(self, age: Ages, keys: Keys, count: int, among: Words, population: int) -> tuple[int, int]:
        """Return the key of rank `count` twice: the counts say where it is. The smaller half is counted."""
        youngest = keys.top - age.now
        if population > self.g.size // 2:
            bins = age.counts[::-1] - _histogram(keys, self.others(among), youngest, 0, age.counts.size)
        else:
            bins = _histogram(keys, among, youngest, 0, age.counts.size)
        threshold = youngest + _highest_bin(bins, count)
        return threshold, threshold

    def _split(self, keys: Keys, lo: int, hi: int, among: Words) -> tuple[Words, Words, int, int]:
        above, inside = np.empty_like(among), np.empty_like(among)
        largest, n_above, n_inside = 0, 0, 0
        for stored, words in keys.blocks():
            top, more, within = kernels.split(stored, *keys.typed(lo, hi), among[words], above[words], inside[words])
            largest, n_above, n_inside = max(largest, int(top)), n_above + more, n_inside + within
        self._unseen.discard(keys)
        if largest <= keys.top:
            return above, inside, n_above, n_inside
        if keys is self._magnitudes:
            raise unordered(np.count_nonzero(np.isnan(self.g)), self.g.size)
        raise negative_age(keys.stored.view(f"i{keys.stored.itemsize}").min())

    def _draw(self, candidates: Words, n: int, count: int, chosen: Words) -> Words:
        """Add `count` of the n candidates to the chosen entries, at random."""
        if count == n:
            return chosen | candidates
        kernels.choose(candidates, draw_bits(n, count, self.rng), chosen)
        return chosen


def _histogram(keys: Keys, words: Words, lo: int, shift: int, size: int) -> NDArray[np.int64]:
    bins = np.zeros(size, np.int64)
    mask, flip, first = keys.typed(lo)
    kernels.histogram(keys.stored, mask, flip, words, first, np.uint64(shift), bins)
    return bins


def _highest_bin(bins: NDArray[np.int64], count: int) -> int:
    """Return the highest bin that has, with all bins above it, at least `count` entries."""
    return bins.size - 1 - int(np.searchsorted(np.cumsum(bins[::-1]), count))


def _unsigned(values: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _highest(stored: NDArray[Any]) -> int:
    return int(np.iinfo(stored.dtype).max)
