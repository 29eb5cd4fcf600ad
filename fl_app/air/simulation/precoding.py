# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a client's precoding in analog mode, which makes all clients add up along the same axes.

The client measures its channel on the server's pilot, which comes over the same path just before the burst. It knows
its clock error from the trigger, and removes the phase ramp that grows with the drift from symbol to symbol. It cannot
know the noise on the pilot, its residual frequency offset and the last error of its timing: these cost accuracy. The
server knows their statistics (`fl_app.air.simulation.gains`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.bursts import early_samples, payload_times_samples
from fl_app.air.pilots import pilot_noise
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.path import Path
from fl_app.core.streams import stream
from oac_blocks.dsp import preamble
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.analog import precoder
from oac_blocks.dsp.waveform.frame import FrameLayout

ComplexArray = npt.NDArray[np.complex64]


def estimate_channel(path: Path, nominal_samples: int, settings: AirSettings) -> ComplexArray:
    """Return the channel (active,) that the client measures on the pilot."""
    num, early = settings.numerology(), early_samples(settings)
    rng = stream(path.seed, "air pilot", *path.where)
    unseen_samples = settings.pilot_timing_sigma_samples * rng.standard_normal()
    symbol = preamble.client_sequence(0, num)
    # One more symbol at each end: a real pilot has no sharp edges, at which a fractional delay would ring.
    pilot = np.tile(symbol, settings.pilot_symbols + 2)
    # The record of the pilot begins at the time of the burst's record: `before` moves its middle to its true time.
    seconds = settings.pilot_age_seconds + len(pilot) / 2 / num.sample_rate_hz
    arrived = path.before(seconds, unseen_samples).carry(pilot, nominal_samples + len(pilot))
    arrived = arrived[nominal_samples + len(symbol) : nominal_samples + len(pilot) - len(symbol)]
    arrived += complex_gaussian(len(arrived), settings.pilot_symbols * pilot_noise(settings), rng)
    reference = ofdm.demodulate(symbol, num)[0]
    return ofdm.demodulate(arrived, num, early).mean(axis=0) / reference


def drift_ramps(clock_ppm: float, layout: FrameLayout, settings: AirSettings) -> ComplexArray:
    """Return the phases (payload symbols, active) that undo a clock's drift since the beginning of the burst."""
    earlier_samples = 1e-6 * clock_ppm * payload_times_samples(layout, settings)
    turns = earlier_samples[:, None] * layout.num.subcarrier_frequencies()
    return np.exp((-2j * np.pi) * turns).astype(np.complex64)


def client_precoding(path: Path, nominal_samples: int, layout: FrameLayout, settings: AirSettings) -> ComplexArray:
    """Return the precoding (payload symbols, active), or (1, active) if no clock drifts."""
    channel = estimate_channel(path, nominal_samples, settings)
    precoding = precoder(channel, settings.inversion, settings.least_magnitude)[None]
    if path.link.clock_ppm == 0:
        return precoding
    return precoding * drift_ramps(path.link.clock_ppm, layout, settings)
