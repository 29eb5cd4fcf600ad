# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the server's receiver make of the sum of all bursts? Noise, a converter, a limiter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.clipping import limit_samples
from fl_app.air.levels import Levels
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.channel import Receiver

_CONVERTER_HEADROOM = 4.0  # full scale over the expected RMS of a part: 12 dB, a peak of OFDM beyond it is one in 10^4
_LARGEST_PART = np.float32(1e12)  # of an impulse, if no converter cuts it: its energy must still be a float32


def receive(
    clean: npt.NDArray[np.complex64],
    participants: int,
    levels: Levels,
    settings: AirSettings,
    rng: np.random.Generator,
) -> npt.NDArray[np.complex64]:
    """The sum of the clients' signals with all that the receiver does to it."""
    expected = expected_power(participants, settings) + levels.sample_noise
    receiver = Receiver(
        snr_db=levels.snr_db,
        noise_alpha=settings.noise_alpha,
        adc_bits=settings.adc_bits,
        adc_full_scale=_CONVERTER_HEADROOM * float(np.sqrt(expected / 2)),
    )
    samples = receiver.receive(clean, rng)
    if settings.noise_alpha < 2:
        samples = samples.view(np.float32).clip(-_LARGEST_PART, _LARGEST_PART).view(np.complex64)
    return limit_samples(samples, settings.limiter_level)


def expected_power(participants: int, settings: AirSettings) -> float:
    """Mean power of a payload sample if nobody abstains and fading has mean power 1: a vote leaves one tone silent."""
    used = settings.active_subcarriers / (2 if settings.mode == "onebit" else 1)
    return participants * used / settings.fft_size
