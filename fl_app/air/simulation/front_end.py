# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the server's receiver to the sum of all bursts: noise, converter and limiter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.settings import AirSettings
from fl_app.air.simulation.clipping import limit_samples
from fl_app.air.simulation.levels import Levels
from oac_blocks.dsp.channel.multiple_access import Receiver

# Full scale over the expected RMS of a real or imaginary part: 12 dB for the peaks of OFDM (one sample in 10^4 is
# higher) and 9.5 dB for a channel better than its mean. The receiver sets it before it knows the burst.
CONVERTER_HEADROOM = 12.0


def receive(
    clean: npt.NDArray[np.complex64],
    participants: int,
    levels: Levels,
    settings: AirSettings,
    rng: np.random.Generator,
) -> npt.NDArray[np.complex64]:
    """Return the sum of the clients' signals after all effects of the receiver."""
    expected = expected_power(participants, settings) + levels.sample_noise
    receiver = Receiver(
        snr_db=levels.snr_db,
        noise_alpha=settings.noise_alpha,
        adc_bits=settings.adc_bits,
        adc_full_scale=CONVERTER_HEADROOM * float(np.sqrt(expected / 2)),
    )
    return limit_samples(receiver.receive(clean, rng), settings.limiter_level)


def expected_power(participants: int, settings: AirSettings) -> float:
    """Return the mean power of a sync symbol's samples, in which all participants use all subcarriers.

    The fading has a mean power of 1.
    """
    return participants * settings.active_subcarriers / settings.fft_size
