# SPDX-License-Identifier: GPL-3.0-or-later
"""How loud do the clients speak in this round, and how loud is the receiver's noise?

Analog clients all multiply by one scale, such that their entries put unit energy on a subcarrier, averaged over all of
them. They report the RMS of their entries when they are ready, and the server's "go" carries the scale: one number
each way over the control link, and nothing to remember from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.settings import AirSettings
from oac_blocks.dsp.waveform.analog import common_scale

_LEAST_RMS = 1e-30  # entries that are all zero have no scale; this one makes the noise on them vanish too
_LEAST_RMS_TO_NOISE = 1e-6  # where noise_std is set: no entry is further below it, or float32 would overflow


@dataclass(frozen=True)
class Levels:
    """Powers are those of complex values; with heavy tails (alpha < 2) they are scales, the variance being infinite."""

    scale: float  # amplitude for an entry; 1 for votes
    sample_noise: float  # power of the receiver's noise on a sample
    subcarrier_noise: float  # the same on a subcarrier
    entry_noise_std: float  # analog: standard deviation of xi on an entry, the mean gain divided out

    @property
    def snr_db(self) -> float | None:
        """As ``Receiver`` takes it; ``None`` without noise."""
        return None if self.sample_noise == 0 else float(-10 * np.log10(self.sample_noise))


def levels_of(settings: AirSettings, payload: npt.NDArray[Any], mean_gain: float) -> Levels:
    """Return the levels of a round in which clients send these payloads (participants, k)."""
    return analog_levels(settings, payload, mean_gain) if settings.scheme.scaled else onebit_levels(settings)


def onebit_levels(settings: AirSettings) -> Levels:
    noise = 0.0 if settings.snr_db is None else 10 ** (-settings.snr_db / 10)
    return Levels(1.0, noise, noise * _gathering(settings), 0.0)


def analog_levels(settings: AirSettings, entries: npt.NDArray[Any], mean_gain: float) -> Levels:
    """For the participants' entries (participants, k). ``noise_std`` holds for xi's entries, whatever the scale."""
    least = max(_LEAST_RMS, _LEAST_RMS_TO_NOISE * (settings.noise_std or 0.0))
    scale = common_scale(max(rms(entries), least))
    to_entry = scale * mean_gain
    if settings.noise_std is not None:
        sample_noise = 2 * (settings.noise_std * to_entry) ** 2 / _gathering(settings)
    else:
        sample_noise = 0.0 if settings.snr_db is None else 10 ** (-settings.snr_db / 10)
    subcarrier_noise = sample_noise * _gathering(settings)
    return Levels(scale, sample_noise, subcarrier_noise, float(np.sqrt(subcarrier_noise / 2)) / to_entry)


def rms(entries: npt.NDArray[Any]) -> float:
    """Root mean square over all clients and entries, summed in float64, one client at a time."""
    total = sum(float(np.einsum("i,i->", row, row, dtype=np.float64)) for row in entries)
    return float(np.sqrt(total / entries.size))


def _gathering(settings: AirSettings) -> float:
    """Noise on a subcarrier over noise on a sample.

    A unitary FFT adds n samples with weights 1/sqrt(n). Gaussian noise stays as it is; alpha-stable noise grows by
    n^(2/alpha - 1) in power, because an impulse in one sample is seen on every subcarrier.
    """
    return float(settings.fft_size ** (2 / settings.noise_alpha - 1))
