# SPDX-License-Identifier: GPL-3.0-or-later
"""From a grid of subcarriers to samples with a cyclic prefix, and back.

The transforms are unitary: a subcarrier of energy 1 is 1 in both domains, and white noise of variance s2 a sample is
white noise of variance s2 a subcarrier. So "SNR" means the same on either side.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp._checks import complex_array, integer, require
from oac_blocks.dsp.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]


def _halves(num: Numerology, fft_size: int) -> tuple[slice, slice]:
    """Where the grid's two halves lie in an unshifted spectrum: negative frequencies, then positive ones."""
    half, gap = num.active_subcarriers // 2, num.dc_nulls // 2
    return slice(fft_size - gap - half, fft_size - gap), slice(gap, gap + half)


def _grid(grid: npt.ArrayLike, num: Numerology) -> ComplexArray:
    array = complex_array("grid", grid, min_ndim=2)
    expected = f"(..., symbols, {num.active_subcarriers})"
    require(array.shape[-1] == num.active_subcarriers, "grid", f"shape {array.shape}", f"of shape {expected}")
    return array


def _bodies(grid: ComplexArray, num: Numerology, fft_size: int) -> ComplexArray:
    negative, positive = _halves(num, fft_size)
    half = num.active_subcarriers // 2
    spectrum = np.zeros((*grid.shape[:-1], fft_size), np.complex64)
    spectrum[..., negative] = grid[..., :half]
    spectrum[..., positive] = grid[..., half:]
    return scipy.fft.ifft(spectrum, axis=-1, norm="ortho", overwrite_x=True)


def modulate(grid: npt.ArrayLike, num: Numerology) -> ComplexArray:
    """Grid (..., symbols, active) to samples (..., symbols * symbol_samples)."""
    grid = _grid(grid, num)
    bodies = _bodies(grid, num, num.fft_size)
    samples = np.empty((*grid.shape[:-1], num.symbol_samples), np.complex64)
    samples[..., num.cp_samples :] = bodies
    samples[..., : num.cp_samples] = bodies[..., num.fft_size - num.cp_samples :]
    return samples.reshape(*grid.shape[:-2], -1)


def demodulate(x: npt.ArrayLike, num: Numerology, early_samples: int = 0) -> ComplexArray:
    """Samples (..., symbols * symbol_samples) to a grid (..., symbols, active): the inverse of :func:`modulate`.

    ``early_samples`` moves the FFT window that far into the prefix (and takes the phase ramp out again), so that a
    burst which comes a little early or late is still seen whole.
    """
    samples = complex_array("x", x)
    early = integer("early_samples", early_samples, 0, num.cp_samples)
    length = samples.shape[-1]
    whole = f"a positive multiple of {num.symbol_samples} samples long"
    require(length > 0 and length % num.symbol_samples == 0, "x", f"{length} samples", whole)
    start = num.cp_samples - early
    symbols = samples.reshape(*samples.shape[:-1], -1, num.symbol_samples)
    spectrum = scipy.fft.fft(symbols[..., start : start + num.fft_size], axis=-1, norm="ortho")
    negative, positive = _halves(num, num.fft_size)
    grid = np.concatenate((spectrum[..., negative], spectrum[..., positive]), axis=-1)
    if early:
        grid *= np.exp(2j * np.pi * num.subcarrier_frequencies() * early).astype(np.complex64)
    return grid


def pmepr_db(grid: npt.ArrayLike, num: Numerology, oversampling: int = 4) -> npt.NDArray[np.float32]:
    """Peak-to-mean envelope power ratio of each symbol in dB, (..., symbols); NaN for a symbol without energy.

    The envelope between the samples counts, hence the oversampling; four times is within 0.1 dB of the limit.
    """
    grid = _grid(grid, num)
    oversampling = integer("oversampling", oversampling, 1, 64)
    bodies = _bodies(grid, num, num.fft_size * oversampling)
    power = bodies.real**2 + bodies.imag**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return (10 * np.log10(power.max(axis=-1) / power.mean(axis=-1))).astype(np.float32)
