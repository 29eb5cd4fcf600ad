# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack flags into bytes: eight flags per byte, the lowest bit first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pack_bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the flags (n,) as bytes."""
    return np.packbits(flags, bitorder="little")


def unpack_bits(packed: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    """Return the first ``count`` flags of these bytes."""
    return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)


def packed_bytes(count: int) -> int:
    """Return the number of bytes that this many flags need."""
    return -(-count // 8)
