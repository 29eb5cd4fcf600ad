# SPDX-License-Identifier: GPL-3.0-or-later
"""From a grid of subcarriers to samples with a cyclic prefix, and back.

The transforms are unitary: a subcarrier of energy 1 is 1 in both domains, and white noise of variance s2 a sample is
white noise of variance s2 a subcarrier. So "SNR" means the same on either side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.waveform.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]
_ROWS_AT_ONCE = 256  # symbols: half a megabyte of spectra


def _halves(num: Numerology, fft_size: int) -> tuple[slice, slice]:
    """Where the grid's two halves lie in an unshifted spectrum: negative frequencies, then positive ones."""
    half, gap = num.active_subcarriers // 2, num.dc_nulls // 2
    return slice(fft_size - gap - half, fft_size - gap), slice(gap, gap + half)


def _grid(grid: npt.ArrayLike, num: Numerology) -> ComplexArray:
    array = complex_array("grid", grid, min_ndim=2)
    expected = f"(..., symbols, {num.active_subcarriers})"
    require(array.shape[-1] == num.active_subcarriers, "grid", f"shape {array.shape}", f"of shape {expected}")
    return array


def _bodies(rows: ComplexArray, num: Numerology, fft_size: int) -> ComplexArray:
    negative, positive = _halves(num, fft_size)
    half = num.active_subcarriers // 2
    spectrum = np.zeros((len(rows), fft_size), np.complex64)
    spectrum[:, negative] = rows[:, :half]
    spectrum[:, positive] = rows[:, half:]
    return scipy.fft.ifft(spectrum, axis=-1, norm="ortho", overwrite_x=True)


def modulate(grid: npt.ArrayLike, num: Numerology) -> ComplexArray:
    """Grid (..., symbols, active) to samples (..., symbols * symbol_samples)."""
    grid = _grid(grid, num)
    rows = grid.reshape(-1, num.active_subcarriers)
    samples = np.empty((len(rows), num.symbol_samples), np.complex64)
    for some in _batches(len(rows)):
        bodies = _bodies(rows[some], num, num.fft_size)
        samples[some, num.cp_samples :] = bodies
        samples[some, : num.cp_samples] = bodies[:, num.fft_size - num.cp_samples :]
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
    require(length % num.symbol_samples == 0, "x", f"{length} samples", whole)
    start, half = num.cp_samples - early, num.active_subcarriers // 2
    bodies = samples.reshape(-1, num.symbol_samples)[:, start : start + num.fft_size]
    rows = np.empty((len(bodies), num.active_subcarriers), np.complex64)
    negative, positive = _halves(num, num.fft_size)
    for some in _batches(len(rows)):
        spectrum = scipy.fft.fft(bodies[some], axis=-1, norm="ortho")
        rows[some, :half] = spectrum[:, negative]
        rows[some, half:] = spectrum[:, positive]
    if early:
        rows *= np.exp(2j * np.pi * num.subcarrier_frequencies() * early).astype(np.complex64)
    return rows.reshape(*samples.shape[:-1], -1, num.active_subcarriers)


def _batches(rows: int) -> Iterator[slice]:
    """A large batch goes through in pieces that stay in the processor's cache."""
    return (slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE))


def pmepr_db(grid: npt.ArrayLike, num: Numerology, oversampling: int = 4) -> npt.NDArray[np.float32]:
    """Peak-to-mean envelope power ratio of each symbol in dB, (..., symbols); NaN for a symbol without energy.

    The envelope between the samples counts, hence the oversampling; four times is within 0.1 dB of the limit.
    """
    grid = _grid(grid, num)
    oversampling = integer("oversampling", oversampling, 1, 64)
    rows = grid.reshape(-1, num.active_subcarriers)
    ratio = np.empty(len(rows), np.float32)
    for some in _batches(len(rows)):
        bodies = _bodies(rows[some], num, num.fft_size * oversampling)
        power = np.square(bodies.real) + np.square(bodies.imag)
        with np.errstate(invalid="ignore"):
            ratio[some] = power.max(axis=-1) / power.mean(axis=-1)
    return np.float32(10) * np.log10(ratio).reshape(grid.shape[:-1])
