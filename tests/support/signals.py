# SPDX-License-Identifier: GPL-3.0-or-later
"""Make complex signals and measure the difference of two signals."""

import numpy as np


def noise(shape, power, rng):
    """Return circular complex Gaussian noise of this power (complex128); ``shape`` is a number or a tuple."""
    shape = (shape,) if np.isscalar(shape) else tuple(shape)
    return np.sqrt(power / 2) * rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0]


def error_db(x, reference):
    """Return the energy of ``x - reference`` relative to that of ``reference``, in dB."""
    return 10 * np.log10(np.sum(np.abs(x - reference) ** 2) / np.sum(np.abs(reference) ** 2))
