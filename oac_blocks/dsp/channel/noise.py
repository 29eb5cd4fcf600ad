# SPDX-License-Identifier: GPL-3.0-or-later
"""Model a receiver's own impairments: thermal noise, impulsive noise, and the converter's clipping and quantisation."""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, integer, real

Shape = int | tuple[int, ...]
# Largest impulse, in amplitudes of the underlying Gaussian. The energies of its FFT must fit into float32, which ends
# at 3e38. Every receiver clips far below this value.
_LARGEST_IMPULSE = 1e15


def complex_gaussian(shape: Shape, power: float, rng: np.random.Generator) -> npt.NDArray[np.complex64]:
    """Return circular Gaussian noise with this variance per complex sample."""
    power = real("power", power, 0.0)
    shape = shape if isinstance(shape, tuple) else (operator.index(shape),)
    parts = rng.standard_normal((*shape[:-1], 2 * shape[-1]), np.float32)
    parts *= np.float32(np.sqrt(power / 2))
    return parts.view(np.complex64)


def complex_alpha_stable(
    shape: Shape, alpha: float, power: float, rng: np.random.Generator
) -> npt.NDArray[np.complex64]:
    """Return isotropic symmetric alpha-stable noise.

    Its characteristic function is exp(-(power |u|^2 / 4)^(alpha/2)). With alpha = 2 this is Gaussian noise of the given
    power. For smaller alpha the tails are heavy, the variance is infinite and ``power`` is a scale. The method is
    Gaussian noise whose power is itself a positive (alpha/2)-stable variable (Kanter's method).
    """
    alpha = real("alpha", alpha, 0.0, 2.0, open_low=True)
    gaussian = complex_gaussian(shape, power, rng)
    if alpha == 2:
        return gaussian
    a = alpha / 2
    angle = rng.uniform(0, np.pi, gaussian.shape)
    # Logarithm of (sin((1-a)U)/E)^((1-a)/a) sin(aU) / sin(U)^(1/a), because such high powers would overflow.
    log_power = (1 - a) / a * (np.log(np.sin((1 - a) * angle)) - np.log(rng.standard_exponential(gaussian.shape)))
    log_power += np.log(np.sin(a * angle)) - np.log(np.sin(angle)) / a
    return (gaussian * np.exp(np.minimum(log_power / 2, np.log(_LARGEST_IMPULSE)))).astype(np.complex64)


def quantise(x: npt.ArrayLike, bits: int = 12, full_scale: float = 1.0) -> npt.NDArray[np.complex64]:
    """Quantise like an analog-to-digital converter: steps of full_scale / 2^(bits-1), clipped at both ends."""
    samples = complex_array("x", x)
    bits, full_scale = integer("bits", bits, 1, 24), real("full_scale", full_scale, 0.0, open_low=True)
    levels = 1 << (bits - 1)
    step = np.float32(full_scale / levels)
    parts = np.ascontiguousarray(samples).view(np.float32) / step
    np.rint(parts, out=parts)
    np.clip(parts, -levels, levels - 1, out=parts)
    parts *= step
    return parts.view(np.complex64)
