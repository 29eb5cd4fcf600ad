# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the levels of a simulated round: the clients' transmit scale and the receiver's noise power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.scales import LEAST_RMS, common_scale, reports
from fl_app.air.settings import AirSettings

_LEAST_RMS_TO_NOISE = 1e-6  # smallest RMS in units of noise_std; float32 would overflow below it


@dataclass(frozen=True)
class Levels:
    """Hold the powers of complex values; for heavy tails (alpha < 2) these are scales, as the variance is infinite."""

    scale: float  # amplitude of an entry of 1; 1 for votes
    sample_noise: float  # power of the receiver's noise on a sample
    subcarrier_noise: float  # power of the receiver's noise on a subcarrier
    entry_noise_std: float  # coherent: standard deviation of xi on an entry, divided by the mean gain

    @property
    def snr_db(self) -> float | None:
        """Return the SNR as ``Receiver`` takes it; ``None`` without noise."""
        return None if self.sample_noise == 0 else float(-10 * np.log10(self.sample_noise))


def levels_of(settings: AirSettings, payload: npt.NDArray[Any], mean_gain: float) -> Levels:
    """Return the levels of a round in which clients send these payloads (participants, k)."""
    return analog_levels(settings, payload, mean_gain) if settings.scheme.coherent else energy_levels(settings, payload)


def energy_levels(settings: AirSettings, payload: npt.NDArray[Any]) -> Levels:
    """Return the levels of a scheme that compares energies: a vote, or an entry of RMS value, has unit energy."""
    noise = 0.0 if settings.snr_db is None else 10 ** (-settings.snr_db / 10)
    return Levels(common_scale(settings.scheme, payload), noise, noise * _gathering(settings), 0.0)


def analog_levels(settings: AirSettings, entries: npt.NDArray[Any], mean_gain: float) -> Levels:
    """Return the levels for these entries (participants, k); ``noise_std`` is that of xi, whatever the scale is."""
    least = max(LEAST_RMS, _LEAST_RMS_TO_NOISE * (settings.noise_std or 0.0))
    root_mean_squares, peaks = reports(entries, least)
    scale = settings.scheme.common_scale(root_mean_squares, peaks)
    to_entry = scale * mean_gain
    if settings.noise_std is not None:
        sample_noise = 2 * (settings.noise_std * to_entry) ** 2 / _gathering(settings)
    else:
        sample_noise = 0.0 if settings.snr_db is None else 10 ** (-settings.snr_db / 10)
    subcarrier_noise = sample_noise * _gathering(settings)
    return Levels(scale, sample_noise, subcarrier_noise, float(np.sqrt(subcarrier_noise / 2)) / to_entry)


def _gathering(settings: AirSettings) -> float:
    """Return the noise power on a subcarrier over that on a sample.

    A unitary FFT adds n samples with weights 1/sqrt(n). Gaussian noise keeps its power. Alpha-stable noise grows by
    n^(2/alpha - 1) in power, because an impulse in one sample reaches every subcarrier.
    """
    return float(settings.fft_size ** (2 / settings.noise_alpha - 1))
