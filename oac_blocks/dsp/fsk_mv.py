# SPDX-License-Identifier: GPL-3.0-or-later
"""Majority vote by frequency-shift keying: which of two adjacent subcarriers holds more energy?

A client puts a random QPSK symbol of unit energy on the first subcarrier of a pair to vote +1, on the second to vote
-1, on neither to abstain. The server compares the two energies; it needs no channel knowledge and no phase.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, generator, integer, real, real_array, require
from oac_blocks.dsp.numerology import Numerology

_QPSK = np.exp(1j * np.pi * (0.25 + 0.5 * np.arange(4)))
# Row 4 * (vote + 1) + phase is the pair of subcarriers that this vote and phase make, packed into one 16-byte item:
# looking pairs up is the whole encoder.
_PAIRS = np.zeros((12, 2), np.complex64)
_PAIRS[0:4, 1] = _QPSK
_PAIRS[8:12, 0] = _QPSK
_PACKED_PAIRS = _PAIRS.view(np.complex128).ravel()
_ABSTAIN = 4
_ROWS_AT_ONCE = 1 << 15


def symbols_needed(k: int, num: Numerology, repeats: int = 1) -> int:
    """OFDM symbols for k votes, each on ``repeats`` pairs."""
    k, repeats = integer("k", k, 1), integer("repeats", repeats, 1)
    return -(-k * repeats // num.votes_per_symbol)


@lru_cache(maxsize=64)
def pair_positions(k: int, num: Numerology, repeats: int = 1) -> npt.NDArray[np.int64]:
    """Where the votes stand: (repeats, k) indices into the burst's pairs, counted symbol by symbol.

    The copies of a vote are spread evenly over the burst, and each symbol is turned in frequency by a step chosen so
    that no two copies of a vote come near the same frequency: a fade in time or in frequency takes one copy, not all.
    """
    width = num.votes_per_symbol
    symbols = symbols_needed(k, num, repeats)
    stride = symbols * width // repeats
    linear = np.arange(repeats)[:, None] * stride + np.arange(k)
    symbol, pair = np.divmod(linear, width)
    positions = symbol * width + (pair + _turn_per_symbol(stride, repeats, width) * symbol) % width
    positions.flags.writeable = False
    return positions


def _turn_per_symbol(stride: int, repeats: int, width: int) -> int:
    """The turn, in pairs a symbol, that keeps the copies of a vote furthest apart in (circular) frequency.

    Copies j strides apart lie ``j * stride`` pairs on, so ``j * stride // width`` symbols on or one more, depending on
    where the vote stands in its symbol; both must come out far away.
    """
    if repeats == 1:
        return 0
    turns = np.arange(width)[:, None, None]
    apart = np.arange(1, repeats)[None, :, None] * stride
    symbols_on = apart // width + np.arange(2)
    distance = (apart + turns * symbols_on) % width
    circular = np.minimum(distance, width - distance)
    # One more symbol cannot happen if the distance is whole symbols.
    circular[:, apart[0, :, 0] % width == 0, 1] = width
    return int(circular.min(axis=(1, 2)).argmax())


def quantise(entries: npt.ArrayLike, rng: np.random.Generator, abstain_below: float = 0.0) -> npt.NDArray[np.int8]:
    """Gradient entries to votes: the sign, 0 (abstain) where ``|entry| < abstain_below``, a coin for exact zeros."""
    values = real_array("entries", entries)
    threshold = real("abstain_below", abstain_below, 0.0)
    votes = np.where(values < 0, np.int8(-1), np.int8(1))
    zeros = values == 0
    if zeros.any():
        votes[zeros] = 2 * generator("rng", rng).integers(0, 2, np.count_nonzero(zeros), np.int8) - 1
    votes[np.abs(values) < threshold] = 0
    return votes


def encode(
    votes: npt.ArrayLike, num: Numerology, rng: np.random.Generator | None, repeats: int = 1
) -> npt.NDArray[np.complex64]:
    """Votes int8 {-1, 0, +1} of shape (..., k) to a grid (..., symbols, active).

    ``rng`` draws the QPSK phases that keep the peaks down; ``None`` sends one phase throughout (for measuring peaks).
    """
    ballots = np.asarray(votes)
    require(ballots.dtype == np.int8, "votes", ballots.dtype, "an int8 array of -1, 0 and +1")
    require(
        ballots.ndim >= 1 and ballots.size > 0, "votes", f"shape {ballots.shape}", "of shape (k,) or (N, k), k >= 1"
    )
    low, high = int(ballots.min()), int(ballots.max())
    require(low >= -1 and high <= 1, "votes", f"values from {low} to {high}", "-1, 0 or +1")
    *lead, k = ballots.shape
    repeats = integer("repeats", repeats, 1)
    symbols = symbols_needed(k, num, repeats)

    row = ((ballots + np.int8(1)) << np.int8(2)).view(np.uint8)
    if repeats > 1:
        row = np.repeat(row[..., None, :], repeats, axis=-2)
    if rng is not None:
        phases = np.frombuffer(generator("rng", rng).bytes(row.size), np.uint8).reshape(row.shape)
        row |= phases & np.uint8(3)
    rows = np.full((*lead, symbols * num.votes_per_symbol), _ABSTAIN, np.uint8)
    if repeats == 1:
        rows[..., :k] = row
    else:
        rows[..., pair_positions(k, num, repeats)] = row
    return _look_up(rows.ravel()).view(np.complex64).reshape(*lead, symbols, num.active_subcarriers)


def _look_up(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.complex128]:
    """The packed pair for each row number, in pieces: NumPy widens the numbers to 8 bytes while it looks them up."""
    pairs = np.empty(rows.size, np.complex128)
    for start in range(0, rows.size, _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        np.take(_PACKED_PAIRS, rows[some], out=pairs[some], mode="clip")
    return pairs


def energies(grid: npt.ArrayLike, k: int, num: Numerology, repeats: int = 1) -> npt.NDArray[np.float32]:
    """Energy for and against each of k votes, (..., 2, k), summed over the copies."""
    array = complex_array("grid", grid, min_ndim=2)
    k, repeats = integer("k", k, 1), integer("repeats", repeats, 1)
    needed = symbols_needed(k, num, repeats)
    expected = f"of shape (..., symbols >= {needed}, {num.active_subcarriers}) for k = {k} and repeats = {repeats}"
    fits = array.shape[-1] == num.active_subcarriers and array.shape[-2] >= needed
    require(fits, "grid", f"shape {array.shape}", expected)
    power = np.square(array.real)
    power += np.square(array.imag)
    pairs = power.reshape(*array.shape[:-2], -1, 2)
    if repeats == 1:
        return np.moveaxis(pairs[..., :k, :], -1, -2)
    return np.moveaxis(pairs[..., pair_positions(k, num, repeats), :].sum(axis=-3, dtype=np.float32), -1, -2)


def detect(grid: npt.ArrayLike, k: int, num: Numerology, repeats: int = 1) -> npt.NDArray[np.float32]:
    """Soft votes float32 (..., k): energy for minus energy against. The sign is the majority's vote."""
    both = energies(grid, k, num, repeats)
    return both[..., 0, :] - both[..., 1, :]
