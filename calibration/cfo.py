# SPDX-License-Identifier: GPL-3.0-or-later
"""How far apart are the carriers? Frequencies in rad/sample, from the trigger or from a frame's sync symbols."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from calibration.estimate import Estimate
from oac_blocks.dsp import bounds
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.trigger import trigger


def of_trigger(x: npt.ArrayLike, start_samples: npt.ArrayLike, cfo_rad: npt.ArrayLike = 0.0) -> Estimate:
    """Of the trigger in records (..., n), near this time (right to a sample) and frequency (to 0.09 rad/sample)."""
    fit = estimate_arrival(x, trigger(), start_samples, cfo_rad)
    return Estimate(np.asarray(fit.cfo_rad_per_sample), np.sqrt(_variance() / np.maximum(fit.snr, 1e-30)))


def of_all(
    syncs: npt.ArrayLike, starts_samples: npt.ArrayLike, clients: int, num: Numerology, early_samples: int = 0
) -> Estimate:
    """Of all clients, from the phases of the sync symbols (groups, symbol) that they share.

    Unique up to half a turn from one symbol to the next; NaN for a single one. The bound is that of the slope of a
    line through phases, each known to 1 / sqrt(2 E/N0).
    """
    burst = estimate_burst(syncs, starts_samples, clients, num, early_samples)
    starts = np.asarray(starts_samples, np.float64)
    span = float(np.sum((starts - starts.mean()) ** 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.sqrt(1 / (2 * num.active_subcarriers * burst.snr * span))
    return Estimate(burst.cfo_rad, np.where(np.isnan(burst.cfo_rad), np.nan, sigma))


@lru_cache(maxsize=1)
def _variance() -> float:
    return bounds.joint_crlb(trigger(), 1.0)[1]
