# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a + factor * b in float32 with one rounding: the same bits on every machine.

A processor with a fused multiply-add rounds a + factor * b once, and torch uses it wherever there is one. NumPy rounds
the product and then the sum, so that a step of NumPy and a step of ``torch.optim.SGD`` differ in the last bit of some
entries (2 % of them for standard normal entries and a rate of 0.01). Server and clients must agree in every bit,
whatever processors they have, so this module computes the fused result in plain float64:

1. The product of two float32 numbers has at most 48 bits, so float64 holds it exactly.
2. The float64 sum is rounded to 53 bits, and the conversion to float32 rounds it again, to 24 bits. Two roundings
   differ from one only if the first of them ends exactly between two float32 numbers, where no trace is left of the
   side that the exact sum lies on.
3. These few sums are found by their bits. For them TwoSum gives the exact error of the first rounding. If there is
   one, the sum moves to the neighbour with an odd last bit on that side (*rounding to odd*), and is converted again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oac_blocks.dsp.checks import require

Floats = NDArray[np.float32]

BLOCK = 32_768  # entries that are computed together: their arrays in float64 stay in a processor's cache
# A float64 number has 29 bits more than a float32 number; halfway between two of these, only the first one is set.
_EXTRA_BITS, _HALFWAY = np.int64(0x1FFF_FFFF), np.int64(0x1000_0000)
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal  # below it, float32 numbers have fewer bits


def multiply_add(a: Floats, factor: float, b: Floats) -> Floats:
    """Return a + factor * b, rounded once, as a new array.

    Parameters
    ----------
    a, b : arrays of float32, of one shape
    factor : float
        It is rounded to float32 first, as torch does with a learning rate.

    Examples
    --------
    >>> a, b = np.array([1.0], np.float32), np.array([1 + 2**-23], np.float32)
    >>> float(multiply_add(a, -1 + 2**-23, b)[0]) == 2.0**-46
    True
    >>> float((a + np.float32(-1 + 2**-23) * b)[0])  # two roundings: the product is rounded to -1
    0.0
    """
    for name, array in (("a", a), ("b", b)):
        require(array.dtype == np.float32, name, array.dtype, "a float32 array")
    require(a.shape == b.shape, "b", f"shape {b.shape}", f"of the shape of a, {a.shape}")
    narrow = float(np.float32(factor))
    result = np.empty(a.shape, np.float32)
    flat_a, flat_b, flat = a.reshape(-1), b.reshape(-1), result.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = slice(start, start + BLOCK)
        _add_block(flat_a[part].astype(np.float64), flat_b[part].astype(np.float64) * narrow, flat[part])
    return result


def _add_block(a: NDArray[np.float64], product: NDArray[np.float64], out: Floats) -> None:
    """Write a + product into ``out``, rounded once."""
    total = a + product
    out[...] = total
    halfway = (total.view(np.int64) & _EXTRA_BITS) == _HALFWAY
    tiny = np.abs(out) <= _SMALLEST_NORMAL  # a sum just below it may have been rounded up to it
    if tiny.any():
        halfway |= tiny & (total != 0)  # a sum that is exactly zero has no error
    if halfway.any():
        places = np.flatnonzero(halfway)
        out[places] = _to_odd(a[places], product[places], total[places])


def _to_odd(a: NDArray[np.float64], b: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a + b rounded to odd, from its rounded value: an inexact sum ends with a set bit.

    Such a sum lies neither on a float32 number nor halfway between two, so that its conversion rounds the exact sum.
    """
    back = total - a
    error: NDArray[Any] = (a - (total - back)) + (b - back)  # TwoSum: exactly a + b - total
    is_even = (total.view(np.int64) & np.int64(1)) == 0
    beside = np.nextafter(total, np.copysign(np.inf, error))
    return np.where((error != 0) & is_even, beside, total)
