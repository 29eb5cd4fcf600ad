# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert between grids of subcarriers and samples with a cyclic prefix.

The transforms are unitary: a subcarrier of energy 1 has energy 1 in both domains, and white noise of variance s2 per
sample is white noise of variance s2 per subcarrier. "SNR" therefore means the same in both domains.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy  # scipy.fft is imported when it is used: settings do without it

from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.waveform.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]
_ROWS_AT_ONCE = 256  # symbols in a batch: half a megabyte of spectra


def _halves(num: Numerology, fft_size: int) -> tuple[slice, slice]:
    """Return the slices of an unshifted spectrum that hold the grid's negative and positive frequencies."""
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
    """Return the samples (..., symbols * symbol_samples) of a grid (..., symbols, active)."""
    grid = _grid(grid, num)
    rows = grid.reshape(-1, num.active_subcarriers)
    samples = np.empty((len(rows), num.symbol_samples), np.complex64)
    for some in _batches(len(rows)):
        bodies = _bodies(rows[some], num, num.fft_size)
        samples[some, num.cp_samples :] = bodies
        samples[some, : num.cp_samples] = bodies[:, num.fft_size - num.cp_samples :]
    return samples.reshape(*grid.shape[:-2], -1)


def demodulate(x: npt.ArrayLike, num: Numerology, early_samples: int = 0) -> ComplexArray:
    """Return the grid (..., symbols, active) of samples (..., symbols * symbol_samples): undo :func:`modulate`.

    ``early_samples`` moves the FFT window that many samples into the prefix and removes the resulting phase ramp. A
    burst that arrives a little early or late is then still received whole.
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
    """Yield slices of a large batch; each piece stays in the processor's cache."""
    return (slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE))


def pmepr_db(grid: npt.ArrayLike, num: Numerology, oversampling: int = 4) -> npt.NDArray[np.float32]:
    """Return the peak-to-mean envelope power ratio of each symbol in dB, (..., symbols).

    A symbol without energy gives NaN.
    The ratio includes the envelope between the samples, hence the oversampling. With a factor of four it is within
    0.1 dB of the limit.
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
