# SPDX-License-Identifier: GPL-3.0-or-later
"""Take majority votes by frequency-shift keying (FSK-MV) on pairs of adjacent subcarriers.

A client puts a random QPSK symbol of unit energy on the first subcarrier of a pair to vote +1 and on the second to
vote -1; it leaves both empty to abstain. The server compares the two energies. It needs neither channel knowledge nor
the phase.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, generator, integer, real, real_array, require
from oac_blocks.dsp.waveform.numerology import Numerology

_QPSK = np.exp(1j * np.pi * (0.25 + 0.5 * np.arange(4)))
# Row 4 * (vote + 1) + phase holds the pair of subcarriers for this vote and phase, packed into one 16-byte item.
# The encoder only looks up these pairs.
_PAIRS = np.zeros((12, 2), np.complex64)
_PAIRS[0:4, 1] = _QPSK
_PAIRS[8:12, 0] = _QPSK
_PACKED_PAIRS = _PAIRS.view(np.complex128).ravel()
_ABSTAIN = 4
_ROWS_AT_ONCE = 1 << 15


def symbols_needed(k: int, num: Numerology, repeats: int = 1) -> int:
    """Return the number of OFDM symbols for k votes, each on ``repeats`` pairs."""
    k, repeats = integer("k", k, 1), integer("repeats", repeats, 1)
    return -(-k * repeats // num.votes_per_symbol)


@lru_cache(maxsize=64)
def pair_positions(k: int, num: Numerology, repeats: int = 1) -> npt.NDArray[np.int64]:
    """Return the positions of the votes: (repeats, k) indices into the burst's pairs, counted symbol by symbol.

    The copies of a vote are spread evenly over the burst. Each symbol is also rotated a little further in frequency
    than the symbol before, so that the copies are far apart in frequency too. A fade in time or in frequency then hits
    one copy, not all of them.
    """
    width = num.votes_per_symbol
    stride = symbols_needed(k, num, repeats) * width // repeats
    symbol, pair = np.divmod(np.arange(repeats)[:, None] * stride + np.arange(k), width)
    turns = _turns_per_symbol(stride, repeats, width)
    if len(turns) > 1:
        # A sample of the votes is enough to find the best rotation; the floor in _turned makes votes differ slightly.
        some = np.unique(np.linspace(0, k - 1, 2 * width).astype(np.int64))
        trials = _turned(pair[:, some], symbol[:, some], turns[:, None, None], width)
        turns = turns[[_least_distance(trials, width).argmax()]]
    positions = symbol * width + _turned(pair, symbol, turns[0], width)
    positions.flags.writeable = False
    return positions


def _turned(pair: npt.NDArray[np.int64], symbol: npt.NDArray[np.int64], turn: Any, width: int) -> npt.NDArray[np.int64]:
    return (pair + np.floor(turn * symbol).astype(np.int64)) % width


def _turns_per_symbol(stride: int, repeats: int, width: int) -> npt.NDArray[np.float64]:
    """Return the rotations to try, in pairs per symbol: they move the next copy by multiples of 1/R of the band.

    In a burst of a few symbols these rotations are coarse, so all whole rotations are tried too.
    """
    shares = width / repeats * np.arange(1, repeats)
    further = (shares - stride % width + width * np.arange(-1, 2)[:, None]) * width / stride
    whole = np.arange(width if repeats > 1 and stride < 4 * width else 1)
    return np.append(whole, further)


def _least_distance(pairs: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """Return the least cyclic distance of two copies of a vote in pairs: (trials, repeats, k) to (trials,)."""
    least = np.full(len(pairs), width)
    for lag in range(1, pairs.shape[1]):
        apart = np.abs(pairs[:, lag:] - pairs[:, :-lag])
        least = np.minimum(least, np.minimum(apart, width - apart).min(axis=(1, 2)))
    return least


def quantise(entries: npt.ArrayLike, rng: np.random.Generator, abstain_below: float = 0.0) -> npt.NDArray[np.int8]:
    """Return the votes (int8) for gradient entries.

    A vote is the sign of its entry, 0 (abstain) where ``|entry| < abstain_below``, and drawn from ``rng`` where the
    entry is exactly zero.
    """
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
    """Return the grid (..., symbols, active) that carries int8 votes -1, 0 or +1 of shape (..., k).

    ``rng`` draws the QPSK phases, which keep the peak power low. With ``None`` all symbols have the same phase, which
    is useful to measure peaks.
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
    """Return the packed pair for each row number, in pieces because NumPy widens the numbers to 8 bytes."""
    pairs = np.empty(rows.size, np.complex128)
    for start in range(0, rows.size, _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        np.take(_PACKED_PAIRS, rows[some], out=pairs[some], mode="clip")
    return pairs


def energies(grid: npt.ArrayLike, k: int, num: Numerology, repeats: int = 1) -> npt.NDArray[np.float32]:
    """Return the energies for and against each of k votes, (..., 2, k), summed over the copies."""
    array = complex_array("grid", grid, min_ndim=2)
    k, repeats = integer("k", k, 1), integer("repeats", repeats, 1)
    needed = symbols_needed(k, num, repeats)
    expected = f"of shape (..., symbols >= {needed}, {num.active_subcarriers}) for k = {k} and repeats = {repeats}"
    fits = array.shape[-1] == num.active_subcarriers and array.shape[-2] >= needed
    require(fits, "grid", f"shape {array.shape}", expected)
    with np.errstate(over="ignore"):
        power = np.square(array.real) + np.square(array.imag)
    require(bool(np.isfinite(power.max())), "grid", "values beyond 1e19", "of values whose energy is a float32")
    pairs = power.reshape(*array.shape[:-2], -1, 2)
    if repeats == 1:
        return np.moveaxis(pairs[..., :k, :], -1, -2)
    return np.moveaxis(pairs[..., pair_positions(k, num, repeats), :].sum(axis=-3, dtype=np.float32), -1, -2)


def detect(grid: npt.ArrayLike, k: int, num: Numerology, repeats: int = 1) -> npt.NDArray[np.float32]:
    """Return soft votes float32 (..., k): energy for minus energy against. The sign is the majority's decision."""
    both = energies(grid, k, num, repeats)
    return both[..., 0, :] - both[..., 1, :]
