# SPDX-License-Identifier: GPL-3.0-or-later
"""Generate the classical sequences and pulses that preambles consist of."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require


def golay_pair(length: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return a binary complementary pair: their aperiodic autocorrelations add up to zero at every lag except 0."""
    length = integer("length", length, 1, 1 << 20)
    require(length & (length - 1) == 0, "length", length, "a power of two")
    a = b = np.ones(1)
    while len(a) < length:
        a, b = np.concatenate((a, b)), np.concatenate((a, -b))
    return a, b


def zadoff_chu(root: int, length: int) -> npt.NDArray[np.complex128]:
    """Return the Zadoff-Chu sequence of odd length: constant amplitude, ideal periodic autocorrelation."""
    length = integer("length", length, 3)
    require(length % 2 == 1, "length", length, "odd")
    root = integer("root", root, 1, length - 1)
    require(math.gcd(root, length) == 1, "root", root, f"coprime to the length {length}")
    n = np.arange(length, dtype=np.int64)
    # The phase is reduced in integers, so that long sequences have no rounding error.
    return np.exp(-1j * np.pi * ((root * n * (n + 1)) % (2 * length)) / length)


def root_raised_cosine(samples_per_chip: int, roll_off: float, half_span_chips: int) -> npt.NDArray[np.float64]:
    """Return a root-raised-cosine pulse of unit energy with 2 * half_span_chips * samples_per_chip + 1 taps."""
    sps = integer("samples_per_chip", samples_per_chip, 1)
    beta = real("roll_off", roll_off, 0.0, 1.0, open_low=True)
    half = integer("half_span_chips", half_span_chips, 1)
    t = np.arange(-half * sps, half * sps + 1) / sps
    with np.errstate(divide="ignore", invalid="ignore"):
        numerator = np.sin(np.pi * t * (1 - beta)) + 4 * beta * t * np.cos(np.pi * t * (1 + beta))
        pulse = numerator / (np.pi * t * (1 - (4 * beta * t) ** 2))
    at_zero = np.isclose(t, 0)
    at_pole = np.isclose(np.abs(t), 1 / (4 * beta))
    edge = np.pi / (4 * beta)
    pulse[at_zero] = 1 - beta + 4 * beta / np.pi
    pulse[at_pole] = beta / np.sqrt(2) * ((1 + 2 / np.pi) * np.sin(edge) + (1 - 2 / np.pi) * np.cos(edge))
    return pulse / np.linalg.norm(pulse)
