# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute closed forms that results are measured against: vote error rates and variance bounds of estimates.

Every ``snr`` is a linear ratio. For votes it is the energy of one client's subcarrier over the noise variance of a
subcarrier. For estimates it is the mean power of the waveform over the noise variance of a sample.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.checks import complex_array, integer, real, require

Number = np.float64 | npt.NDArray[np.float64]


def mv_error_probability(
    k_plus: npt.ArrayLike, k_minus: npt.ArrayLike, snr: npt.ArrayLike, repeats: npt.ArrayLike = 1
) -> Number:
    """Return the probability that FSK-MV decides against the majority in independent Rayleigh fading.

    The energy of a tone is exponentially distributed with mean ``snr * votes + 1``. The tone of the minority holds more
    energy with probability p, its share of the sum of both means. Summed over R copies, each energy is Erlang
    distributed, and this probability is the regularised incomplete beta function I_p(R, R).

    Parameters
    ----------
    k_plus, k_minus : array_like
        Number of clients that vote +1 and -1. All other clients abstain.
    snr : array_like
        Linear ratio of signal energy to noise variance, >= 0.
    repeats : array_like
        Number of independent copies of each vote, >= 1.

    Returns
    -------
    float or array
        The probability for the broadcast arguments; 1/2 for a tie, which has no majority.
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


def energy_variance(
    sum_plus: npt.ArrayLike,
    sum_minus: npt.ArrayLike,
    noise: npt.ArrayLike,
    repeats: npt.ArrayLike = 1,
    *,
    steady_squares: npt.ArrayLike = 0.0,
    shared_squares: npt.ArrayLike = 0.0,
) -> Number:
    """Return the variance of the sum that ``energy.detect`` returns, for scale 1.

    A tone that N clients share in Rayleigh fading is Gaussian, so its energy is exponentially distributed: its standard
    deviation equals its mean, the sum of the clients' energies plus the noise. The two tones are independent, and the
    mean over R independent copies has 1/R of the variance.

    A client's gain with a steady part of power a (Rician fading: a = K / (K + 1)) has less variance. The square of the
    mean then loses a^2 g^2 for each client, because a number of constant magnitude and random phase has no variance of
    its own. If all copies of an entry see the same gain, its power varies with all of them together: every client adds
    g^2 times the variance of its power gain (Rayleigh: 1, Rician: 1 - a^2), of which averaging removes nothing.

    Parameters
    ----------
    sum_plus, sum_minus : array_like
        Sum of the energies of the clients with a positive and with a negative entry, at the server, >= 0.
    noise : array_like
        Noise variance of a subcarrier, >= 0.
    repeats : array_like
        Number of copies of each entry, >= 1.
    steady_squares : array_like
        Sum of (a g)^2 over all clients; 0 for Rayleigh fading.
    shared_squares : array_like
        Sum of g^2 (1 - a^2) over all clients if the copies share one gain; 0 if their gains are independent.

    Returns
    -------
    float or array
        The variance for the broadcast arguments.
    """
    names = ("sum_plus", "sum_minus", "noise", "repeats", "steady_squares", "shared_squares")
    given = (sum_plus, sum_minus, noise, repeats, steady_squares, shared_squares)
    values = [np.asarray(value, np.float64) for value in given]
    for name, value in zip(names, values, strict=True):
        least = 1 if name == "repeats" else 0
        sound = bool(np.all(np.isfinite(value) & (value >= least)))
        require(sound, name, value, f"finite and >= {least}")
    plus, minus, floor, copies, steady, shared = values
    one_look = (plus + floor) ** 2 + (minus + floor) ** 2 - steady
    return np.float64(1) * ((one_look - shared) / copies + shared)


def delay_crlb(waveform: npt.ArrayLike, snr: float) -> float:
    """Return the least variance of a delay estimate in samples^2, for a known waveform of unknown complex amplitude.

    The bound is 1 / (2 E/N0 w2), where E/N0 = snr * length and w2 is the central second moment of the spectrum in
    (rad/sample)^2.
    """
    x, snr = _waveform(waveform), real("snr", snr, 0.0, open_low=True)
    w2 = _spectral_moments(x)[1]
    return float(1 / (2 * snr * len(x) * w2))


def cfo_crlb(length: int, snr: float) -> float:
    """Return the least variance of a frequency estimate in (rad/sample)^2 from samples of constant envelope."""
    length, snr = integer("length", length, 2), real("snr", snr, 0.0, open_low=True)
    return 6 / (snr * length * (length**2 - 1))


def joint_crlb(waveform: npt.ArrayLike, snr: float) -> tuple[float, float]:
    """Return the least variances of delay and frequency when both of them and the amplitude are unknown.

    The first is in samples^2, the second in (rad/sample)^2. They are never below the bounds for one unknown, and far
    above them for a chirp, because a frequency offset of a chirp looks like a delay.
    """
    x, snr = _waveform(waveform), real("snr", snr, 0.0, open_low=True)
    require(len(x) >= 2, "waveform", f"{len(x)} samples", "at least 2 samples long")
    energy = np.vdot(x, x).real
    time = np.arange(len(x)) - len(x) / 2
    # The 2x2 Fisher information per unit E/N0: central moments of time and frequency, and their covariance.
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
    """Return the mean (rad/sample) and variance ((rad/sample)^2) of the energy spectrum over [-pi, pi).

    The result is exact, without a frequency grid and without leakage: the energy spectrum is the Fourier series of the
    autocorrelation r, and the integrals of w e^{jwm} and w^2 e^{jwm} over one period are known.
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
    """Return the derivative of the band-limited waveform at its samples (for a tone: rad/sample times the value)."""
    n = len(x)
    size = scipy.fft.next_fast_len(2 * n)
    lag = np.arange(1, n)
    kernel = np.zeros(size, np.complex128)
    kernel[1:n] = (1.0 - 2.0 * (lag % 2)) / lag
    kernel[size - n + 1 :] = -kernel[1:n][::-1]
    return scipy.fft.ifft(scipy.fft.fft(x, size) * scipy.fft.fft(kernel))[:n]
