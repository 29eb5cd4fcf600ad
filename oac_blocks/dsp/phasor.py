# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute long runs of e^{jwn} quickly and without the rounding error of a large float32 phase."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_RUN = 64


def phasors(
    frequency_rad: npt.ArrayLike, n: int, first: float = 0, dtype: npt.DTypeLike = np.complex64
) -> npt.NDArray[Any]:
    """Return e^{jw (first + i)} for i = 0 .. n-1.

    A table of n exponentials is the outer product of two short tables, because n = 64 a + b. Only the short tables
    need sines and cosines, which take ten times as long as the product.

    Parameters
    ----------
    frequency_rad : array_like of shape (...)
        Frequencies w in rad/sample.
    n : int
        Number of samples.
    first : float
        Index of the first sample; it may have a fraction.
    dtype : dtype
        complex64 or complex128.

    Returns
    -------
    array of shape (..., n)
    """
    frequency = np.asarray(frequency_rad, np.float64)[..., None]
    coarse = np.exp(1j * frequency * (first + _RUN * np.arange(-(-n // _RUN)))).astype(dtype, copy=False)
    fine = np.exp(1j * frequency * np.arange(_RUN)).astype(dtype, copy=False)
    table = coarse[..., :, None] * fine[..., None, :]
    return table.reshape(*frequency.shape[:-1], -1)[..., :n]
