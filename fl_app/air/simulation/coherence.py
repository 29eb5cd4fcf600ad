# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how much of a client's amplitude its remaining phase errors leave in the mean (analog mode).

Two errors grow after the pilot. A residual frequency offset rotates the phase with the time since the pilot, alike on
all subcarriers. A change of timing rotates it with the subcarrier's frequency, alike in all symbols. Both are Gaussian,
and a Gaussian phase error of standard deviation s leaves the share exp(-s^2 / 2) in the mean. The server knows both
laws and divides each received subcarrier by its own share. It does not divide by less than a hundredth: there, clients
add up at random, and division would leave noise alone.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_app.air.bursts import payload_times_samples
from fl_app.air.pilots import residual_cfo_hz
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.waveform.frame import FrameLayout

_LEAST_SHARE = 0.01  # smallest share of the amplitude by which the server divides
_MOST_RAD = math.sqrt(-2 * math.log(_LEAST_SHARE))  # standard deviation of the phase error that leaves this share

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Coherence:
    """The shares of the amplitude in a burst: the product of a factor for each symbol and one for each subcarrier."""

    of_symbols: npt.NDArray[np.float64]  # (payload symbols,)
    of_tones: npt.NDArray[np.float64]  # (active,)

    @property
    def noise_gain(self) -> float:
        """Return the gain for which the mean noise power on the divided subcarriers is that of noise divided by it."""
        return float(1 / np.sqrt(np.mean(self.of_symbols**-2) * np.mean(self.of_tones**-2)))

    def undo(self, grid: npt.NDArray[np.complex64]) -> npt.NDArray[np.complex64]:
        """Return a received grid (payload symbols, active) with each subcarrier divided by its share."""
        undone = grid / self.of_symbols.astype(np.float32)[:, None] / self.of_tones.astype(np.float32)
        return undone.astype(np.complex64, copy=False)


def warn_of_random_phases(settings: AirSettings) -> None:
    """Log a warning if clients' phases are random at the beginning of a burst, or at the edges of the band."""
    cfo_hz, age = residual_cfo_hz(settings), settings.pilot_age_seconds
    if 2 * math.pi * cfo_hz * age > _MOST_RAD:
        _log.warning(
            "[air] pilot_age_seconds = %g with a residual frequency offset of %.3g Hz: the clients' phases are random "
            "when they send; analog mode needs at most %.3g Hz (cfo_residual_hz, clock_walk_ppm) or a younger pilot",
            age,
            cfo_hz,
            _MOST_RAD / (2 * math.pi * age),
        )
    sigma, most = settings.pilot_timing_sigma_samples, _MOST_RAD / float(np.abs(_omega(settings)).max())
    if sigma > most:
        _log.warning(
            "[air] pilot_timing_sigma_samples = %g: the clients' phases are random at the edges of the band; analog "
            "mode needs at most %.3g",
            sigma,
            most,
        )


def coherence_of(layout: FrameLayout, settings: AirSettings) -> Coherence:
    """Return the shares of a burst of this layout."""
    seconds = settings.pilot_age_seconds + payload_times_samples(layout, settings) / settings.sample_rate_hz
    turns = 2 * np.pi * residual_cfo_hz(settings) * seconds
    ramps = _omega(settings) * settings.pilot_timing_sigma_samples
    return Coherence(*(np.maximum(np.exp(-(errors**2) / 2), _LEAST_SHARE) for errors in (turns, ramps)))


def _omega(settings: AirSettings) -> npt.NDArray[np.float64]:
    """Return the frequencies of the active subcarriers in rad/sample."""
    frequencies: npt.NDArray[np.float64] = 2 * np.pi * settings.numerology().subcarrier_frequencies()
    return frequencies
