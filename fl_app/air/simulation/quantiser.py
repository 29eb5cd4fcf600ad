# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantise a client's entries to a few bits each, without bias, and count the bits of a payload."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer

MOST_BITS = 32  # bits of an entry: as many as a float32 has


def quantise(entries: npt.NDArray[np.float32], bits: int, coins: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return the entries (k,) on a uniform grid of 2^bits values from minus to plus their largest magnitude.

    An entry between two values of the grid becomes one of them at random, the nearer one more often, so that its mean
    is the entry itself (stochastic rounding). With the step s = 2 peak / (2^bits - 1) and the entry at the share f of a
    step, the variance is s^2 f (1 - f), at most s^2 / 4.
    """
    steps = 2 ** integer("bits", bits, 1, MOST_BITS) - 1
    peak = float(np.abs(entries).max())
    if peak == 0:
        return np.zeros_like(entries)
    place = (entries.astype(np.float64) / peak + 1) * (steps / 2)
    level = np.minimum(np.floor(place + coins.random(len(entries))), steps)
    return ((level * (2 / steps) - 1) * peak).astype(np.float32)


def exact_bits(values: npt.NDArray[Any]) -> int:
    """Return the bits that each of these whole numbers (k,) needs: 1 for votes of -1 and +1, 2 if there are zeros too.

    In general the values are those from minus to plus the largest magnitude.
    """
    most = int(np.abs(values.astype(np.int64)).max())
    is_sign = most == 1 and bool(np.all(values))
    return 1 if is_sign else max(1, int(2 * most).bit_length())
