# SPDX-License-Identifier: GPL-3.0-or-later
"""Long runs of e^{jwn}, quickly and without the rounding of a large float32 phase."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_RUN = 64


def phasors(frequency_rad: npt.ArrayLike, n: int, first: int = 0) -> npt.NDArray[np.complex64]:
    """e^{jw (first + i)} for i = 0 .. n-1: frequencies (...) in rad/sample to complex64 (..., n).

    A table of n exponentials is the outer product of two short ones: n = 64 a + b. Only those need the sine and
    cosine, which take ten times as long as the product.
    """
    frequency = np.asarray(frequency_rad, np.float64)[..., None]
    coarse = np.exp(1j * frequency * (first + _RUN * np.arange(-(-n // _RUN)))).astype(np.complex64)
    fine = np.exp(1j * frequency * np.arange(_RUN)).astype(np.complex64)
    table = coarse[..., :, None] * fine[..., None, :]
    return table.reshape(*frequency.shape[:-1], -1)[..., :n]
