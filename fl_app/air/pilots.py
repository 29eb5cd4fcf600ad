# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what the server's pilot leaves unknown to a client: noise on its channel, and a frequency offset."""

from __future__ import annotations

import math

from fl_app.air.settings import AirSettings
from oac_blocks.dsp.bounds import cfo_crlb
from oac_blocks.dsp.channel.crystal import walk_sigma_ppm

# Hz, residual offset of schemes that compare energies. They tolerate a kilohertz, so any small value will do.
_USUAL_RESIDUAL_HZ = 10.0


def pilot_noise(settings: AirSettings) -> float:
    """Return the noise variance of a client's channel estimate on a subcarrier, averaged over the pilot's symbols.

    The mean power of the channel is 1.
    """
    return 0.0 if settings.pilot_snr_db is None else 10 ** (-settings.pilot_snr_db / 10) / settings.pilot_symbols


def residual_cfo_hz(settings: AirSettings) -> float:
    """Return the standard deviation of a client's frequency offset after its correction.

    The default in a coherent scheme has two parts. The client measures the offset on the pilot, with the Cramer-Rao
    bound for its samples. Their SNR is below that of a subcarrier, as only a part of the subcarriers is active: 0.78
    Hz for 16 symbols, 30 dB and 20 Msps (6.2 Hz for 4 symbols, and 53 Hz for the 280 samples of the trigger alone at
    this SNR). Then the crystal goes on walking until the burst: a rate that walks by q in a second rotates the phase
    over a time t by as much as a constant offset of q sqrt(t / 3), 2.0 Hz for 0.01 ppm at 2.4 GHz and 20 ms.
    """
    if settings.cfo_residual_hz is not None:
        return settings.cfo_residual_hz
    if not settings.scheme.coherent:
        return _USUAL_RESIDUAL_HZ
    num = settings.numerology()
    measured = 0.0
    if settings.pilot_snr_db is not None:
        sample_snr = 10 ** (settings.pilot_snr_db / 10) * num.active_subcarriers / num.fft_size
        variance = cfo_crlb(settings.pilot_symbols * num.symbol_samples, sample_snr)
        measured = math.sqrt(variance) * num.sample_rate_hz / (2 * math.pi)
    walked_ppm = walk_sigma_ppm(settings.clock_walk_ppm, settings.pilot_age_seconds / 3)
    return math.hypot(measured, 1e-6 * walked_ppm * settings.carrier_hz)
