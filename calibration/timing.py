# SPDX-License-Identifier: GPL-3.0-or-later
"""When did it arrive? Times in samples, with the fraction, of the trigger, of one client, or of all clients at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from calibration.estimate import Estimate
from oac_blocks.dsp import bounds
from oac_blocks.dsp.receive.arrival import Arrival, estimate_arrival
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.waveform.client_sequence import client_sequence
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.trigger import trigger


def of_trigger(x: npt.ArrayLike, start_samples: npt.ArrayLike, cfo_rad: npt.ArrayLike = 0.0) -> Estimate:
    """The trigger in records (..., n) near ``start_samples``, right to a sample; its frequency is fitted as well."""
    fit = estimate_arrival(x, trigger(), start_samples, cfo_rad)
    return _estimate(fit, _joint_variance())


def of_client(x: npt.ArrayLike, client: int, num: Numerology, start_samples: npt.ArrayLike) -> Estimate:
    """A client's own sequence in records (..., n), its frequency corrected: a chirp's offset would be a delay."""
    fit = estimate_arrival(x, client_sequence(client, num), start_samples, fit_cfo=False)
    return _estimate(fit, _sequence_variance(client, num))


def of_all(
    syncs: npt.ArrayLike, starts_samples: npt.ArrayLike, clients: int, num: Numerology, early_samples: int = 0
) -> Estimate:
    """All clients against "exactly in time", from the sync symbols (groups, symbol) that they share."""
    burst = estimate_burst(syncs, starts_samples, clients, num, early_samples)
    return Estimate(burst.delay_samples, burst.sigma_samples)


def _estimate(fit: Arrival, variance_at_0_db: float) -> Estimate:
    return Estimate(np.asarray(fit.time_samples), np.sqrt(variance_at_0_db / np.maximum(fit.snr, 1e-30)))


@lru_cache(maxsize=1)
def _joint_variance() -> float:
    return bounds.joint_crlb(trigger(), 1.0)[0]


@lru_cache(maxsize=256)
def _sequence_variance(client: int, num: Numerology) -> float:
    return bounds.delay_crlb(client_sequence(client, num), 1.0)
