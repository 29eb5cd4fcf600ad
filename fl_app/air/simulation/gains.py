# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the gain that remains of a client's channel after its precoding (analog mode), and its mean.

The remaining gain is real: |h| after a phase rotation alone, 0 or 1 after truncated inversion. The server divides by
its mean, so that equation (7) holds with mu_c = 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.special

from fl_app.air.settings import AirSettings
from oac_blocks.dsp.channel import fading
from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.analog import precoder


def mean_gain(settings: AirSettings, profile: str | None = None) -> float:
    """Return the mean of the remaining gain over the fading, or over the subcarriers if the channel does not fade."""
    delays = fading.PROFILES[settings.profile if profile is None else profile]
    if settings.fading == "none":
        gain = float(np.mean(_remaining(_fixed_response(settings, delays), settings)))
    else:
        sight = _line_of_sight_power(settings, delays)
        gain = _rician_mean(sight) if settings.inversion == "phase" else _rician_tail(sight, settings.least_magnitude)
    allowed = "small enough that clients send at all (mean gain above 1e-6)"
    require(gain > 1e-6, "least_magnitude", settings.least_magnitude, allowed)
    return gain


def draw_flat_gains(n: int, settings: AirSettings, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Draw remaining gains of n clients in flat fading, divided by their mean: h of equation (7) with mu_c = 1."""
    h = fading.gains((n,), settings.fading, rng, settings.rician_k_db)
    return (_remaining(h, settings) / mean_gain(settings, "flat")).astype(np.float32)


def _remaining(h: npt.NDArray[np.complex64], settings: AirSettings) -> npt.NDArray[np.float32]:
    return (h * precoder(h, settings.inversion, settings.least_magnitude)).real


def _fixed_response(settings: AirSettings, delays: fading.DelayProfile) -> npt.NDArray[np.complex64]:
    """Return the response on the active subcarriers without fading, when the paths are exactly the profile's."""
    nobody = np.random.default_rng(0)  # a generator is required, but nothing is drawn from it
    num = settings.numerology()
    taps = fading.impulse_responses(1, delays, "none", num.sample_rate_hz, nobody)[0]
    ramps = np.exp(-2j * np.pi * num.subcarrier_frequencies()[:, None] * np.arange(len(taps)))
    return (ramps @ taps).astype(np.complex64)


def _line_of_sight_power(settings: AirSettings, delays: fading.DelayProfile) -> float:
    """Return the share of the mean power that does not fade: the line of sight of the first path."""
    if settings.fading == "rayleigh":
        return 0.0
    k = 10 ** (settings.rician_k_db / 10)
    return float(delays.powers()[0] * k / (k + 1))


def _rician_mean(sight: float) -> float:
    """Return the mean magnitude of a Rician gain of mean power 1; ``sight`` = 0 is Rayleigh, sqrt(pi)/2."""
    scattered = 1 - sight
    y = sight / scattered
    # The Laguerre function L_{1/2}(-y), with scaled Bessel functions that do not overflow.
    laguerre = (1 + y) * scipy.special.i0e(y / 2) + y * scipy.special.i1e(y / 2)
    return float(np.sqrt(np.pi * scattered) / 2 * laguerre)


def _rician_tail(sight: float, least: float) -> float:
    """Return the probability that a Rician gain of mean power 1 has a magnitude of at least ``least``."""
    per_part = (1 - sight) / 2
    return float(1 - scipy.special.chndtr(least**2 / per_part, 2, sight / per_part))
