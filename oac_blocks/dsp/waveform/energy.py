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

_ENTRIES_AT_ONCE = 1 << 13  # entries whose intermediate results stay in the cache
_TWICE = np.uint64((1 << 32) + 1)  # copies the lower half of 64 bits to the upper half
_BOTH_SIGNS = np.uint64((1 << 63) + (1 << 31))


def _kept_bits() -> npt.NDArray[np.complex128]:
    """Return the bits of a pair of subcarriers that are kept; row 4 * (g > 0) + phase."""
    positive_part = np.array([[True, True], [False, True], [False, False], [True, False]])  # real, imaginary
    bits = np.zeros((2, 4, 2, 2), np.uint32)  # g > 0, phase, subcarrier, part
    bits[1, :, 0] = bits[0, :, 1] = np.where(positive_part, 0x7FFFFFFF, 0xFFFFFFFF)
    return bits.reshape(8, 4).view(np.complex128).ravel()


_KEPT_BITS = _kept_bits()


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
    placed = np.zeros((*lead, symbols * num.votes_per_symbol), np.float32)
    if repeats == 1:
        placed[..., :k] = entries
    else:
        placed[..., fsk_mv.pair_positions(k, num, repeats)] = entries[..., None, :]
    phases = np.zeros(placed.size, np.uint8)
    if rng is not None:
        phases = np.frombuffer(generator("rng", rng).bytes(placed.size), np.uint8) & np.uint8(3)
    pairs = _packed_pairs(placed.ravel(), phases, scale)
    return pairs.view(np.complex64).reshape(*lead, symbols, num.active_subcarriers)


def _packed_pairs(
    entries: npt.NDArray[np.float32], phases: npt.NDArray[np.uint8], scale: float
) -> npt.NDArray[np.complex128]:
    """Return the pair of subcarriers of each entry, packed into one 16-byte item, for QPSK phases 0 to 3.

    All real and imaginary parts of a QPSK symbol have the magnitude ``sqrt(scale |g| / 2)``, and differ in their signs.
    So a pair is this magnitude four times with the sign bit set, of which a table's bits keep the whole number, the
    number without its sign, or nothing. This takes half the time of a product with four real numbers per entry.
    """
    pairs = np.empty(entries.size, np.complex128)
    for start in range(0, entries.size, _ENTRIES_AT_ONCE):
        some = slice(start, start + _ENTRIES_AT_ONCE)
        g = entries[some]
        magnitude = np.abs(g)
        magnitude *= np.float32(scale / 2)
        np.sqrt(magnitude, out=magnitude)
        twice = magnitude.view(np.uint32).astype(np.uint64)
        twice *= _TWICE
        twice |= _BOTH_SIGNS
        np.take(_KEPT_BITS, ((g > 0).view(np.uint8) << np.uint8(2)) | phases[some], out=pairs[some], mode="clip")
        for subcarrier in pairs[some].view(np.uint64).reshape(-1, 2).T:
            subcarrier &= twice
    return pairs


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
