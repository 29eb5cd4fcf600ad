# SPDX-License-Identifier: GPL-3.0-or-later
"""How strong is it? Received power in dB, 0 dB for a waveform as it is sent at full amplitude.

The amplitude's estimate is off by a complex number of variance N0 / E, of which half lies along the amplitude. The
power in dB is then off by 20 / ln(10) sqrt(N0 / (2 E)), as long as that is small.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from calibration.estimate import Estimate, Floats
from oac_blocks.dsp.receive.arrival import Arrival, estimate_arrival
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.waveform.client_sequence import client_sequence
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.trigger import trigger


def of_trigger(x: npt.ArrayLike, start_samples: npt.ArrayLike, cfo_rad: npt.ArrayLike = 0.0) -> Estimate:
    """Of the trigger in records (..., n): its mean power a sample."""
    return _estimate(estimate_arrival(x, trigger(), start_samples, cfo_rad), len(trigger()))


def of_client(x: npt.ArrayLike, client: int, num: Numerology, start_samples: npt.ArrayLike) -> Estimate:
    """Of a client's own sequence in records (..., n): the energy of its subcarriers."""
    fit = estimate_arrival(x, client_sequence(client, num), start_samples, fit_cfo=False)
    return _estimate(fit, num.symbol_samples)


def of_all(
    syncs: npt.ArrayLike, starts_samples: npt.ArrayLike, clients: int, num: Numerology, early_samples: int = 0
) -> Estimate:
    """Of all clients, from the sync symbols (groups, symbol) that they share: the energy of their subcarriers."""
    burst = estimate_burst(syncs, starts_samples, clients, num, early_samples)
    return Estimate(_db(burst.power), _sigma_db(burst.snr * num.active_subcarriers * np.size(starts_samples)))


def _estimate(fit: Arrival, samples: int) -> Estimate:
    power = np.asarray(np.abs(fit.amplitude), np.float64) ** 2
    return Estimate(_db(power), _sigma_db(np.asarray(fit.snr) * samples))


def _sigma_db(energy_over_noise: Floats) -> Floats:
    return 20 / math.log(10) * np.sqrt(1 / (2 * np.maximum(energy_over_noise, 1e-30)))


def _db(power: Floats) -> Floats:
    return 10 * np.log10(np.maximum(power, 1e-30))
