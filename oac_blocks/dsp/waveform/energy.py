# SPDX-License-Identifier: GPL-3.0-or-later
"""Add up gradient entries as energies on pairs of adjacent subcarriers.

A client puts the energy ``scale * |g|`` with a random QPSK phase on the first subcarrier of a pair if its entry g is
positive, and on the second if g is negative. The server subtracts the two energies. If the clients' gains are
independent, have random phases and unit mean power, cross terms and noise cancel in the mean, and the expected
difference is ``scale`` times the sum of the entries. The server needs neither channel knowledge nor the phase, as with
the majority vote (``fsk_mv``), whose pairs and copies this module shares. ``bounds.energy_variance`` is the variance.
"""

from __future__ import annotations

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
    if repeats > 1 or k < pairs:
        placed = np.zeros((*lead, pairs), np.float32)
        where = slice(k) if repeats == 1 else fsk_mv.pair_positions(k, num, repeats)
        placed[..., where] = entries if repeats == 1 else entries[..., None, :]
        entries = placed
    flat = entries.reshape(-1)
    sent = np.abs(flat)
    sent *= np.float32(scale)
    sent = _phases(flat.size, rng) * np.sqrt(sent, out=sent)
    negative = flat < 0
    grid = np.empty((*lead, symbols, num.active_subcarriers), np.complex64)
    both = grid.reshape(-1, 2)
    np.multiply(sent, ~negative, out=both[:, 0])
    np.multiply(sent, negative, out=both[:, 1])
    return grid


def _phases(count: int, rng: np.random.Generator | None) -> npt.NDArray[np.complex64]:
    """Return random QPSK symbols of unit energy, or the same one ``count`` times."""
    if rng is None:
        return np.full(count, _QPSK[0])
    return np.take(_QPSK, np.frombuffer(generator("rng", rng).bytes(count), np.uint8) & np.uint8(3), mode="clip")


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
