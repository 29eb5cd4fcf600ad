# SPDX-License-Identifier: GPL-3.0-or-later
"""Closed forms to measure against: the error rate of a majority vote, the variance of delay and frequency estimates.

``snr`` is linear throughout. For votes it is the energy of one client's subcarrier over the noise variance of a
subcarrier; for estimates the mean power of the waveform over the noise variance of a sample.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft
import scipy.special

from oac_blocks.dsp.checks import complex_array, integer, real, require

Number = np.float64 | npt.NDArray[np.float64]


def mv_error_probability(
    k_plus: npt.ArrayLike, k_minus: npt.ArrayLike, snr: npt.ArrayLike, repeats: npt.ArrayLike = 1
) -> Number:
    """Probability that FSK-MV decides against the majority in independent Rayleigh fading.

    ``k_plus`` clients vote for, ``k_minus`` against, the rest abstain. Both tones' energies are exponential with means
    ``snr * votes + 1``, so the smaller one wins with probability p = its share of the sum; summed over R copies each
    energy is Erlang, and the smaller one wins with the regularised incomplete beta function I_p(R, R). A tie has no
    majority: 1/2. Arguments broadcast.
    """
    plus, minus, ratio, copies = (np.asarray(v, np.float64) for v in (k_plus, k_minus, snr, repeats))
    for name, value in (("k_plus", plus), ("k_minus", minus)):
        whole = np.isfinite(value) & (value >= 0) & (value == np.floor(value))
        require(bool(np.all(whole)), name, value, "a whole number of clients >= 0")
    require(bool(np.all((ratio >= 0) & np.isfinite(ratio))), "snr", ratio, "a finite linear ratio >= 0")
    whole = np.isfinite(copies) & (copies >= 1) & (copies == np.floor(copies))
    require(bool(np.all(whole)), "repeats", copies, "a whole number >= 1")
    p = (ratio * np.minimum(plus, minus) + 1) / (ratio * (plus + minus) + 2)
    return scipy.special.betainc(copies, copies, p)


def delay_crlb(waveform: npt.ArrayLike, snr: float) -> float:
    """Least variance of a delay estimate in samples^2, the waveform known, its complex amplitude not.

    1 / (2 E/N0 w2) with E/N0 = snr * length and w2 the central second moment of the spectrum in (rad/sample)^2.
    """
    x, snr = _waveform(waveform), real("snr", snr, 0.0, open_low=True)
    w2 = _spectral_moments(x)[1]
    return float(1 / (2 * snr * len(x) * w2))


def cfo_crlb(length: int, snr: float) -> float:
    """Least variance of a frequency estimate in (rad/sample)^2 from ``length`` samples of constant envelope."""
    length, snr = integer("length", length, 2), real("snr", snr, 0.0, open_low=True)
    return 6 / (snr * length * (length**2 - 1))


def joint_crlb(waveform: npt.ArrayLike, snr: float) -> tuple[float, float]:
    """Least variances (delay in samples^2, frequency in (rad/sample)^2) when both and the amplitude are unknown.

    Never below the single bounds; far above them for a chirp, where a frequency offset looks like a delay.
    """
    x, snr = _waveform(waveform), real("snr", snr, 0.0, open_low=True)
    require(len(x) >= 2, "waveform", f"{len(x)} samples", "at least 2 samples long")
    energy = np.vdot(x, x).real
    time = np.arange(len(x)) - len(x) / 2
    # Moments of time and frequency about their means, and their covariance: the 2x2 Fisher information per unit E/N0.
    power = np.abs(x) ** 2 / energy
    time_variance = power @ (time - power @ time) ** 2
    mean_frequency, frequency_variance = _spectral_moments(x)
    slope = _derivative_at_samples(x)
    mixed = np.vdot((time - power @ time) * x, -1j * slope - mean_frequency * x).real / energy
    information = 2 * snr * len(x) * np.array([[frequency_variance, -mixed], [-mixed, time_variance]])
    variances = np.diag(np.linalg.inv(information))
    return float(variances[0]), float(variances[1])


def _waveform(waveform: npt.ArrayLike) -> npt.NDArray[np.complex128]:
    x = np.asarray(waveform)
    x = complex_array("waveform", x.astype(np.complex64) if x.dtype.kind == "f" else x)
    require(x.ndim == 1, "waveform", f"shape {x.shape}", "one-dimensional")
    require(bool(np.any(x)), "waveform", "all zeros", "a waveform with energy")
    return x.astype(np.complex128)


def _spectral_moments(x: npt.NDArray[np.complex128]) -> tuple[float, float]:
    """Mean (rad/sample) and variance ((rad/sample)^2) of the energy spectrum over [-pi, pi), exactly.

    The energy spectrum is the Fourier series of the autocorrelation r, and the integrals of w e^{jwm} and w^2 e^{jwm}
    over a period are known: no grid, no leakage.
    """
    n = len(x)
    size = scipy.fft.next_fast_len(2 * n)
    spectrum = scipy.fft.fft(x, size)
    r = scipy.fft.ifft(np.abs(spectrum) ** 2)[:n] / np.vdot(x, x).real
    lag = np.arange(1, n)
    sign = 1.0 - 2.0 * (lag % 2)
    # The spectrum is sum_m r[m] e^{-jwm}, and r[-m] = conj(r[m]).
    mean = -2 * np.sum(r[1:].imag * sign / lag)
    second = np.pi**2 / 3 + 2 * np.sum(r[1:].real * 2 * sign / lag**2)
    return float(mean), float(second - mean**2)


def _derivative_at_samples(x: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    """Derivative of the band-limited waveform at its own samples (rad/sample times the value, for a tone)."""
    n = len(x)
    size = scipy.fft.next_fast_len(2 * n)
    lag = np.arange(1, n)
    kernel = np.zeros(size, np.complex128)
    kernel[1:n] = (1.0 - 2.0 * (lag % 2)) / lag
    kernel[size - n + 1 :] = -kernel[1:n][::-1]
    return scipy.fft.ifft(scipy.fft.fft(x, size) * scipy.fft.fft(kernel))[:n]
