# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled loops over keys and bits.

A key is an unsigned integer that orders entries: ``(stored & mask) ^ flip``, where `stored` is the entry's number read
as an unsigned integer of the same size. The bits of a float without its sign order magnitudes; the bits of an age order
ages; the flipped round of the last update orders ages, too. Bit i of a mask is bit ``i % 64`` of its word ``i // 64``,
and bits beyond the last entry are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oac_blocks.dsp.compiled import compiled

Words = NDArray[np.uint64]

_U = np.uint64  # numba makes floats of mixed signed and unsigned integers, so that every constant has this type
_ZERO, _ONE, _ALL = _U(0), _U(1), _U(0xFFFFFFFFFFFFFFFF)
_PAIRS, _QUADS, _BYTES = _U(0x5555555555555555), _U(0x3333333333333333), _U(0x0F0F0F0F0F0F0F0F)
_SUM_OF_BYTES = _U(0x0101010101010101)
_SPREAD = _U(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbouring positions land far apart in a table


@compiled
def ones(word: Any) -> Any:
    """Return the number of ones in a word; the compiler makes one instruction of it."""
    word = word - ((word >> _U(1)) & _PAIRS)
    word = (word & _QUADS) + ((word >> _U(2)) & _QUADS)
    word = (word + (word >> _U(4))) & _BYTES
    return np.int64((word * _SUM_OF_BYTES) >> _U(56))


@compiled
def count(words: Words) -> int:
    """Return the number of ones in a mask."""
    total = 0
    for word in words:
        total += ones(word)
    return total


@compiled
def split(
    keys: NDArray[Any], mask: Any, flip: Any, lo: Any, hi: Any, among: Words, above: Words, inside: Words
) -> tuple[Any, int, int]:
    """Mark the entries of `among` whose key is above hi, and those whose key is from lo to hi, 64 entries at a time.

    The number of keys is a multiple of 64: the compiler unrolls a loop of known length, which is five times as fast.
    Returns the largest key of all entries, and how many were marked above and inside.
    """
    largest, n_above, n_inside = mask ^ mask, 0, 0
    for number in range(among.size):
        a, b = _ZERO, _ZERO
        for place in range(64):
            key = (keys[64 * number + place] & mask) ^ flip
            a |= _U(key > hi) << _U(place)
            b |= _U(key >= lo) << _U(place)
            largest = max(largest, key)
        a &= among[number]
        b &= among[number] & ~a
        above[number] = a
        inside[number] = b
        n_above += ones(a)
        n_inside += ones(b)
    return largest, n_above, n_inside


@compiled
def histogram(
    keys: NDArray[Any], mask: Any, flip: Any, words: Words, lo: Any, shift: Any, bins: NDArray[np.int64]
) -> None:
    """Add the marked entries to bins of 2^shift keys each, from lo on."""
    for number in range(words.size):
        word = words[number]
        while word != _ZERO:
            lowest = word & (~word + _ONE)
            key = (keys[64 * number + ones(lowest - _ONE)] & mask) ^ flip
            bins[np.int64((_U(key) - _U(lo)) >> _U(shift))] += 1
            word ^= lowest


@compiled
def collect(keys: NDArray[Any], mask: Any, flip: Any, words: Words, out: NDArray[Any]) -> None:
    """Write the keys of the marked entries in the order of their index."""
    filled = 0
    for number in range(words.size):
        word = words[number]
        while word != _ZERO:
            lowest = word & (~word + _ONE)
            out[filled] = (keys[64 * number + ones(lowest - _ONE)] & mask) ^ flip
            filled += 1
            word ^= lowest


@compiled
def settle(found: NDArray[Any], threshold: Any, above: Words, inside: Words) -> tuple[int, int]:
    """Move the entries inside, whose keys were collected, to those above if they exceed the threshold, and drop those
    below it; return how many were moved and how many stay."""
    seen, moved, stay = 0, 0, 0
    for number in range(inside.size):
        word = inside[number]
        while word != _ZERO:
            lowest = word & (~word + _ONE)
            key = found[seen]
            seen += 1
            if key > threshold:
                above[number] |= lowest
                moved += 1
            if key == threshold:
                stay += 1
            else:
                inside[number] ^= lowest
            word ^= lowest
    return moved, stay


@compiled
def place_of(word: Any, rank: Any) -> Any:
    """Return the place of the one that has `rank` ones below it in the word."""
    if word == _ALL:
        return _U(rank)
    place, width = _ZERO, _U(32)
    while width != _ZERO:
        below = ones(word & ((_ONE << width) - _ONE))
        if rank >= below:
            rank -= below
            word >>= width
            place += width
        width >>= _U(1)
    return place


@compiled
def choose(candidates: Words, ranks: Words, chosen: Words) -> None:
    """Mark the candidate of rank r in `chosen` for every bit r of `ranks`; candidates are ranked by their index."""
    seen = 0
    for number in range(candidates.size):
        word = candidates[number]
        here = ones(word)
        if here == 0:
            continue
        first, offset = seen // 64, _U(seen % 64)
        window = ranks[first] >> offset
        if offset != _ZERO and first + 1 < ranks.size:
            window |= ranks[first + 1] << (_U(64) - offset)
        if here < 64:
            window &= (_ONE << _U(here)) - _ONE
        while window != _ZERO:
            lowest = window & (~window + _ONE)
            chosen[number] |= _ONE << place_of(word, ones(lowest - _ONE))
            window ^= lowest
        seen += here


@compiled
def positions(words: Words, out: NDArray[np.int64]) -> None:
    """Write the indices of a mask's ones in their order."""
    filled = 0
    for number in range(words.size):
        word = words[number]
        while word != _ZERO:
            lowest = word & (~word + _ONE)
            out[filled] = 64 * number + ones(lowest - _ONE)
            filled += 1
            word ^= lowest


@compiled
def bounded(raw: Any, bound: Any) -> Any:
    """Return a random number below the bound for 32 random bits, or the bound itself if these must be drawn anew.

    This is Lemire's way, which numpy takes.
    """
    product = _U(raw) * bound
    low = product & _U(0xFFFFFFFF)
    if low < bound and low < (_U(1 << 32) - bound) % bound:
        return bound
    return product >> _U(32)


@compiled
def draw_without_repeats(raw: NDArray[np.uint32], first: int, ranks: Words) -> int:
    """Mark random numbers, of which the n-th is at most first + n; take this bound for a number that is marked already.

    This is Floyd's way to draw a subset. Returns how many were drawn: some random bits are of no use.
    """
    n = 0
    for bits in raw:
        number = bounded(bits, _U(first + n + 1))
        if number > _U(first + n):
            continue
        if (ranks[number >> _U(6)] >> (number & _U(63))) & _ONE:
            number = _U(first + n)
        ranks[number >> _U(6)] |= _ONE << (number & _U(63))
        n += 1
    return n


@compiled
def draw_by_swaps(raw: NDArray[np.uint32], last: int, begin: int, tail: NDArray[np.uint32], moved: Words) -> int:
    """Swap the numbers at the places last, last - 1, ... with those at random places that are not behind them.

    `tail` holds the numbers at the places from `begin` on. Before them each place holds its own number, except those
    that are in the table `moved`: an entry has the place plus 1 in its upper half and the number there in its lower
    one, and 0 is a free slot. Returns how many were swapped: some random bits are of no use.
    """
    slots = _U(moved.size - 1)
    n = 0
    for bits in raw:
        drawn = bounded(bits, _U(last - n + 1))
        if drawn > _U(last - n):
            continue
        place, other = last - n - begin, np.int64(drawn)
        n += 1
        if other >= begin:
            tail[place], tail[other - begin] = tail[other - begin], tail[place]
            continue
        slot, name = ((drawn * _SPREAD) >> _U(32)) & slots, drawn + _ONE
        while moved[slot] != _ZERO and moved[slot] >> _U(32) != name:
            slot = (slot + _ONE) & slots
        number = drawn if moved[slot] == _ZERO else moved[slot] & _U(0xFFFFFFFF)
        moved[slot] = (name << _U(32)) | _U(tail[place])
        tail[place] = number
    return n


@compiled
def mark(numbers: NDArray[Any], words: Words) -> None:
    """Set the bits of these numbers."""
    for entry in numbers:
        number = np.int64(entry)
        words[number // 64] |= _ONE << _U(number % 64)


@compiled
def refresh(last: NDArray[Any], selected: NDArray[np.int64], value: Any, counts: NDArray[np.int64]) -> None:
    """Set the selected entries to a value, and take them out of the counts of their old values."""
    for index in selected:
        counts[last[index]] -= 1
        last[index] = value
