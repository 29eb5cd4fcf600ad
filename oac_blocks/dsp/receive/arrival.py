# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate arrival time, carrier frequency offset and amplitude by the maximum-likelihood fit of a known waveform.

The model is a * s(n - time) * e^{j cfo (n - middle)} in white noise, where s is band-limited. From a start that is
correct to about a sample, Gauss-Newton steps on time and frequency reach the maximum of the likelihood and with it the
Cramer-Rao bound; each step solves for the complex amplitude a. Time and frequency are fitted together, because for a
chirp a frequency offset looks like a delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.phasor import phasors

_MARGIN = 32  # samples around the waveform that take part in the fit, for the tails of a fractional delay
_LARGEST_STEP = 0.5  # samples; a longer Gauss-Newton step would leave the main lobe
# Delays in samples around the start at which the search evaluates the response.
_SEARCH_SAMPLES = 0.25 * np.arange(-4, 5)


@dataclass(frozen=True)
class Arrival:
    """Estimates of an arrival; each field is an array of the batch's shape (0-dimensional for one record)."""

    time_samples: npt.NDArray[np.float64]
    cfo_rad_per_sample: npt.NDArray[np.float64]
    amplitude: npt.NDArray[np.complex128]  # complex amplitude at the waveform's middle
    # Linear ratio of the power of the fitted waveform to the power of the residual, per sample.
    snr: npt.NDArray[np.float64]


def estimate_arrival(
    x: npt.ArrayLike,
    waveform: npt.ArrayLike,
    start_samples: npt.ArrayLike,
    cfo_rad_per_sample: npt.ArrayLike = 0.0,
    *,
    fit_cfo: bool = True,
    iterations: int = 6,
    search: bool = True,
) -> Arrival:
    """Fit a waveform to each record near a given start.

    Parameters
    ----------
    x : complex array of shape (..., n)
        The records. A waveform that the record holds only in part is fitted by that part.
    waveform : complex array of shape (L,)
    start_samples : array_like of shape (...)
        Approximate arrival time, correct to one sample (to half a sample with ``search=False``).
    cfo_rad_per_sample : array_like of shape (...)
        Approximate frequency offset, correct to 8 pi / L (to pi / L with ``search=False``).
    fit_cfo : bool
        With ``False`` the given frequency offset counts as exact.
    iterations : int
        Number of Gauss-Newton steps.
    search : bool
        Whether to search around the start before the first step.

    Returns
    -------
    Arrival
    """
    x, waveform = complex_array("x", x), complex_array("waveform", waveform)
    require(
        waveform.ndim == 1 and bool(np.any(waveform)), "waveform", f"shape {waveform.shape}", "a vector with energy"
    )
    iterations = integer("iterations", iterations, 1, 100)
    lead = x.shape[:-1]
    start, cfo = (np.asarray(v, np.float64) for v in (start_samples, cfo_rad_per_sample))
    for name, value in (("start_samples", start), ("cfo_rad_per_sample", cfo)):
        require(value.shape in ((), lead), name, f"shape {value.shape}", f"one number, or of shape {lead}")
    start, cfo = np.broadcast_to(start, lead), np.broadcast_to(cfo, lead).copy()
    require(bool(np.isfinite(start).all()), "start_samples", start, "finite")
    require(bool(np.isfinite(cfo).all()), "cfo_rad_per_sample", cfo, "finite")
    length, n = len(waveform), x.shape[-1]
    inside = bool(np.all((start > -length) & (start < n)))
    require(inside, "start_samples", start, f"within the record of {n} samples")

    fit = _Fit(x, waveform, np.rint(start).astype(np.int64))
    delay = start - np.rint(start)
    if search:
        delay, cfo = fit.search(delay, cfo, fit_cfo)
    for _ in range(iterations):
        delay, cfo = fit.step(delay, cfo, fit_cfo)
    amplitude, snr = fit.amplitude_and_snr(delay, cfo)
    return Arrival(fit.first + delay, cfo, amplitude, snr)


class _Fit:
    """Windows of the records around the waveform, and the model's value and derivatives on them."""

    def __init__(self, x: npt.NDArray[Any], waveform: npt.NDArray[Any], first: npt.NDArray[np.int64]) -> None:
        self.first, self.length = first, len(waveform)
        self.size = scipy.fft.next_fast_len(self.length + 2 * _MARGIN)
        index = first[..., None] - _MARGIN + np.arange(self.size)
        outside = (index < 0) | (index >= x.shape[-1])
        windows = np.take_along_axis(x, np.clip(index, 0, x.shape[-1] - 1), axis=-1).astype(np.complex128)
        windows[outside] = 0
        self.windows, self.inside = windows, ~outside
        template = np.zeros(self.size, np.complex128)
        template[_MARGIN : _MARGIN + self.length] = waveform
        self.spectrum = scipy.fft.fft(template)
        self.frequency = 2 * np.pi * scipy.fft.fftfreq(self.size)
        # Time counts from the waveform's middle, because frequency and phase then decouple.
        self.begin = -_MARGIN - (self.length - 1) / 2
        self.time = self.begin + np.arange(self.size)
        self.support = (self.time >= -self.length / 2 - 1) & (self.time <= self.length / 2 + 1)
        self.mean_power = float(np.mean(np.abs(waveform) ** 2))

    def _shifted(self, delay: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return the spectrum of s(n - delay)."""
        half = self.size // 2
        turn = phasors(-2 * np.pi / self.size * delay, half + 1, dtype=np.complex128)
        below = np.conj(turn[..., half:0:-1])  # at negative frequencies
        return self.spectrum * np.concatenate((turn[..., : self.size - half], below), axis=-1)

    def _turn(self, cfo: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return the phasors that rotate the waveform's samples by the frequency."""
        # Samples outside the record are unknown, which is not the same as zero.
        return phasors(cfo, self.size, self.begin, np.complex128) * self.inside

    def _value_and_slope(
        self, delay: npt.NDArray[np.float64], cfo: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return s(n - delay) and its derivative with respect to the delay, both rotated by the frequency."""
        shifted, turn = self._shifted(delay), self._turn(cfo)
        slope = scipy.fft.ifft(shifted * (-1j * self.frequency), axis=-1) * turn
        return scipy.fft.ifft(shifted, axis=-1) * turn, slope

    def search(
        self, delay: npt.NDArray[np.float64], cfo: npt.NDArray[np.float64], fit_cfo: bool
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the strongest response within a sample and 8 pi / L of the start, on a grid fine enough for Newton."""
        grid = np.pi / (2 * self.length) * np.arange(-16, 17) if fit_cfo else np.zeros(1)
        turns = phasors(-grid, self.size, dtype=np.complex128)
        shifted, turned = self._shifted(delay), self._turn(cfo)
        best, best_delay, best_cfo = np.full(delay.shape, -1.0), delay, cfo
        for shift in _SEARCH_SAMPLES:
            value = scipy.fft.ifft(shifted * np.exp(-1j * self.frequency * shift), axis=-1) * turned
            response = np.abs(_times(np.conj(value) * self.windows, turns))
            # The response is normalised, so that a shift at the record's end does not win by leaving energy outside.
            strength = response / np.sqrt(_inner(value, value).real)[..., None]
            peak = strength.argmax(axis=-1)
            strongest = np.take_along_axis(strength, peak[..., None], axis=-1)[..., 0]
            better = strongest > best
            best = np.where(better, strongest, best)
            best_delay = np.where(better, delay + shift, best_delay)
            best_cfo = np.where(better, cfo + grid[peak], best_cfo)
        return best_delay, best_cfo

    def step(
        self, delay: npt.NDArray[np.float64], cfo: npt.NDArray[np.float64], fit_cfo: bool
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return delay and frequency after one Gauss-Newton step."""
        value, by_delay = self._value_and_slope(delay, cfo)
        by_cfo = 1j * self.time * value
        energy = _inner(value, value).real
        amplitude = _inner(value, self.windows) / energy
        amplitude = np.where(amplitude == 0, 1e-30, amplitude)
        residual = self.windows / amplitude[..., None] - value
        # The direction of the amplitude is removed from both derivatives.
        by_delay = by_delay - value * (_inner(value, by_delay) / energy)[..., None]
        by_cfo = by_cfo - value * (_inner(value, by_cfo) / energy)[..., None]
        dd, df, ff = (_inner(a, b).real for a, b in ((by_delay, by_delay), (by_delay, by_cfo), (by_cfo, by_cfo)))
        rd, rf = _inner(by_delay, residual).real, _inner(by_cfo, residual).real
        if not fit_cfo:
            return delay + np.clip(rd / dd, -_LARGEST_STEP, _LARGEST_STEP), cfo
        determinant = dd * ff - df**2
        step_delay, step_cfo = (ff * rd - df * rf) / determinant, (dd * rf - df * rd) / determinant
        # One factor limits both steps, so that a clipped step keeps its direction along a chirp's ridge.
        largest = np.maximum(np.abs(step_delay) / _LARGEST_STEP, np.abs(step_cfo) * self.length / np.pi)
        shrink = 1 / np.maximum(largest, 1)
        return delay + shrink * step_delay, cfo + shrink * step_cfo

    def amplitude_and_snr(
        self, delay: npt.NDArray[np.float64], cfo: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.complex128], npt.NDArray[np.float64]]:
        """Return the complex amplitude and the linear SNR per sample of the fit."""
        value = scipy.fft.ifft(self._shifted(delay), axis=-1) * self._turn(cfo)
        amplitude = _inner(value, self.windows) / _inner(value, value).real
        # Only the samples under the waveform count: the signal before and after it is not noise.
        residual = (self.windows - amplitude[..., None] * value)[..., self.support]
        heard = np.maximum(np.count_nonzero(self.inside[..., self.support], axis=-1), 1)
        noise = np.sum(np.abs(residual) ** 2, axis=-1) / heard
        return amplitude, np.abs(amplitude) ** 2 * self.mean_power / np.maximum(noise, 1e-30)


def _times(rows: npt.NDArray[Any], columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the product of rows (..., n) and the transpose of ``columns`` (f, n)."""
    # For one record the threads of a BLAS cost more time than they save.
    return np.einsum("...n,fn->...f", rows, columns) if rows.ndim == 1 else rows @ columns.T


def _inner(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.einsum("...n,...n->...", np.conj(a), b)
