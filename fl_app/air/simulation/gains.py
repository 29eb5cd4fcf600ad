# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the gain that remains of a client's channel after its precoding (analog mode), and its mean.

A client that knows its channel h leaves a real gain: |h| after a phase rotation alone, 0 or 1 after truncated
inversion. A client that knows h + e, where e is the noise of its pilot, leaves a complex gain with a real mean. The
server divides by this mean, so that equation (7) holds with mu_c = 1.

The mean has a closed form. Let h = m + z with a steady part m and Gaussian scattering z of power s, and let e have the
power p. Then z given the estimate is the share s / (s + p) of what the estimate has beyond m. What is left are the
means of |h + e| (Rice), of its direction (a ratio of Bessel functions) and of m / (h + e) where the client sends
(Marcum's Q of order 0).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.special

from fl_app.air.settings import AirSettings
from oac_blocks.dsp.channel import fading
from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.analog import precoder

Floats = npt.NDArray[np.float64]

# Squared ratio of a steady part to its noise beyond which the law of its magnitude is Gaussian to 1e-9.
_GAUSSIAN_FROM = 1e8
_LEAST_NOISE = 1e-18  # power of pilot noise and scattering together below which an estimate counts as exact


def mean_gain(settings: AirSettings, profile: str | None = None, pilot_noise: float = 0.0) -> float:
    """Return the mean of the remaining gain over the fading, or over the subcarriers if the channel does not fade.

    Parameters
    ----------
    settings : AirSettings
    profile : str, optional
        Delay profile in place of that of the settings.
    pilot_noise : float
        Noise variance of a client's channel estimate on a subcarrier.
    """
    delays = fading.PROFILES[settings.profile if profile is None else profile]
    if settings.fading == "none":
        steady, scattered = np.abs(_fixed_response(settings, delays)).astype(np.float64), 0.0
    else:
        sight = _line_of_sight_power(settings, delays)
        steady, scattered = np.sqrt([sight]), 1 - sight
    remaining = _mean_magnitude if settings.inversion == "phase" else _mean_inverted
    gain = float(np.mean(remaining(steady, scattered, pilot_noise, settings.least_magnitude)))
    allowed = "small enough that clients send at all (mean gain above 1e-6)"
    require(gain > 1e-6, "least_magnitude", settings.least_magnitude, allowed)
    return gain


def draw_flat_gains(n: int, settings: AirSettings, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Draw remaining gains of n clients in flat fading, divided by their mean: h of equation (7) with mu_c = 1."""
    h = fading.gains((n,), settings.fading, rng, settings.rician_k_db)
    remaining = (h * precoder(h, settings.inversion, settings.least_magnitude)).real
    return (remaining / mean_gain(settings, "flat")).astype(np.float32)


def _fixed_response(settings: AirSettings, delays: fading.DelayProfile) -> npt.NDArray[np.complex64]:
    """Return the response on the active subcarriers without fading, when the paths are exactly the profile's."""
    nobody = np.random.default_rng(0)  # a generator is required, but nothing is drawn from it
    num = settings.numerology()
    taps = fading.impulse_responses(1, delays, "none", num.sample_rate_hz, nobody)[0]
    ramps = np.exp(-2j * np.pi * num.subcarrier_frequencies()[:, None] * np.arange(len(taps)))
    return (ramps @ taps).astype(np.complex64)


def _line_of_sight_power(settings: AirSettings, delays: fading.DelayProfile) -> float:
    """Return the share of the mean power that does not fade: the line of sight of the first tap.

    Paths that fall on the first sample are one tap with one line of sight.
    """
    if settings.fading == "rayleigh":
        return 0.0
    k = 10 ** (settings.rician_k_db / 10)
    return float(fading.tap_powers(delays, settings.sample_rate_hz)[0] * k / (k + 1))


def _mean_magnitude(steady: Floats, scattered: float, noise: float, _least: float) -> Floats:
    """Return the mean of Re(h conj(h + e) / |h + e|): what a rotation by the estimated phase leaves."""
    total = scattered + noise
    if total < _LEAST_NOISE:
        return steady
    known = scattered / total
    y = steady**2 / total
    # Scaled Bessel functions do not overflow. Without noise this is the mean of a Rician magnitude, and without
    # scattering the steady part times the mean cosine of the phase error.
    i0, i1 = scipy.special.i0e(y / 2), scipy.special.i1e(y / 2)
    magnitude = np.sqrt(np.pi * total) / 2 * ((1 + y) * i0 + y * i1)
    direction = np.sqrt(np.pi * y) / 2 * (i0 + i1)
    mean: Floats = known * magnitude + (1 - known) * steady * direction
    return mean


def _mean_inverted(steady: Floats, scattered: float, noise: float, least: float) -> Floats:
    """Return the mean of Re(h / (h + e)) where |h + e| >= least: what truncated inversion leaves."""
    total = scattered + noise
    if total < _LEAST_NOISE:
        return (steady >= least).astype(np.float64)
    known = scattered / total
    a, b = steady * np.sqrt(2 / total), least * np.sqrt(2 / total)
    sends = _marcum_q1(a, b)
    # The mean of m / (h + e) where the client sends is Q0(a, b), by the recursion of Marcum's Q.
    inverse = sends - np.exp(-((a - b) ** 2) / 2) * scipy.special.i0e(a * b)
    mean: Floats = known * sends + (1 - known) * inverse
    return mean


def _marcum_q1(a: Floats, b: float) -> Floats:
    """Return the probability that a Rician magnitude of steady part a and unit variance per part is at least b."""
    few = np.minimum(a, np.sqrt(_GAUSSIAN_FROM))
    exact = 1 - scipy.special.chndtr(b**2, 2, few**2)
    with np.errstate(divide="ignore"):
        far = scipy.special.ndtr(a - b + 1 / (2 * a))
    return np.where((a > few) | (b > 2 * np.sqrt(_GAUSSIAN_FROM)), far, exact)
