# SPDX-License-Identifier: GPL-3.0-or-later
"""Add up gradient entries as energies on pairs of adjacent subcarriers.

A client puts the energy ``scale * |g|`` with a random QPSK phase on the first subcarrier of a pair if its entry g is
positive, and on the second if g is negative. The server subtracts the two energies. If the clients' gains are
independent, have random phases and unit mean power, cross terms and noise cancel in the mean, and the expected
difference is ``scale`` times the sum of the entries. The server needs neither channel knowledge nor the phase, as with
the majority vote (``fsk_mv``), whose pairs and copies this module shares. ``bounds.energy_variance`` is the variance.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import generator, integer, real, real_array, require
from oac_blocks.dsp.waveform import fsk_mv
from oac_blocks.dsp.waveform.numerology import Numerology

_QPSK = np.exp(1j * np.pi * (0.25 + 0.5 * np.arange(4))).astype(np.complex64)


def encode(
    values: npt.ArrayLike, num: Numerology, rng: np.random.Generator | None, scale: float, repeats: int = 1
) -> npt.NDArray[np.complex64]:
    """Return the grid that carries gradient entries.

    Parameters
    ----------
    values : array_like of shape (k,) or (N, k)
        The entries of one client, or of N clients.
    num : Numerology
    rng : Generator or None
        Draws the QPSK phases, anew for each copy. With ``None`` all subcarriers have the same phase, which is useful to
        measure peaks.
    scale : float
        Energy of an entry of 1; the amplitude is ``sqrt(scale * |g|)``. All clients must use the same scale.
    repeats : int
        Number of pairs for each entry; every copy has the full energy.

    Returns
    -------
    complex64 array of shape (symbols, active) or (N, symbols, active)
    """
    entries = real_array("values", values)
    require(entries.ndim >= 1 and entries.size > 0, "values", f"shape {entries.shape}", "of shape (k,) or (N, k)")
    scale, repeats = real("scale", scale, 0.0, open_low=True), integer("repeats", repeats, 1)
    *lead, k = entries.shape
    symbols = fsk_mv.symbols_needed(k, num, repeats)
    pairs = symbols * num.votes_per_symbol
    if repeats > 1:
        placed = np.zeros((*lead, pairs), np.float32)
        placed[..., fsk_mv.pair_positions(k, num, repeats)] = entries[..., None, :]
        entries, k = placed, pairs
    sent = np.abs(entries)
    sent *= np.float32(scale)
    sent = _phases(entries.shape, rng) * np.sqrt(sent, out=sent)
    negative = entries < 0
    both = np.empty((*lead, pairs, 2), np.complex64)
    both[..., k:, :] = 0
    np.multiply(sent, ~negative, out=both[..., :k, 0])
    np.multiply(sent, negative, out=both[..., :k, 1])
    return both.reshape(*lead, symbols, num.active_subcarriers)


def _phases(shape: tuple[int, ...], rng: np.random.Generator | None) -> npt.NDArray[np.complex64]:
    """Return random QPSK symbols of unit energy, or the same one everywhere."""
    if rng is None:
        return np.full(shape, _QPSK[0])
    drawn = np.frombuffer(generator("rng", rng).bytes(math.prod(shape)), np.uint8) & np.uint8(3)
    return np.take(_QPSK, drawn, mode="clip").reshape(shape)


def detect(grid: npt.ArrayLike, k: int, num: Numerology, scale: float, repeats: int = 1) -> npt.NDArray[np.float32]:
    """Return the estimate of the sum of the clients' entries, float32 (..., k), the mean over the copies.

    Parameters
    ----------
    grid : array_like of shape (..., symbols, active)
        The received subcarriers.
    k : int
        Number of entries.
    num : Numerology
    scale : float
        The scale of :func:`encode`.
    repeats : int
        Number of pairs for each entry.
    """
    unit = np.float32(real("scale", scale, 0.0, open_low=True) * integer("repeats", repeats, 1))
    return fsk_mv.detect(grid, k, num, repeats) / unit
