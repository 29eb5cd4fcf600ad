# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how high noise peaks when a waveform is searched for at every delay of a window.

The metric at a delay is the share of the energy that the waveform explains, summed over several looks with the same
delay: sum |<s, x>|^2 / (|s|^2 sum |x|^2), from 0 to 1. In white noise it is distributed as Beta(looks, looks
(length - 1)). The metric exceeds a level somewhere in a window only if it does so at the window's start or crosses the
level upwards later. The mean number of such crossings has a closed form (Rice's formula on the sphere).
"""

from __future__ import annotations

import math
from functools import lru_cache

import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.checks import integer, real

_RESOLUTION = 1e-9  # step at which the search for a threshold ends; metrics are float32, which is coarser


def peak_probability(
    metric: float, window_samples: float, bandwidth_rad: float, length: float, looks: int = 1
) -> float:
    """Return an upper bound of the probability that noise exceeds ``metric`` in the window; tight where it is small.

    ``bandwidth_rad`` is the square root of the waveform's central second spectral moment in rad/sample. ``length`` is
    the number of complex noise values in a look.
    """
    x = real("metric", metric, 0.0, 1.0)
    looks = integer("looks", looks, 1)
    m = looks * (real("length", length, 1.0, open_low=True) - 1)
    window, bandwidth = real("window_samples", window_samples, 0.0), real("bandwidth_rad", bandwidth_rad, 0.0)
    if x in (0.0, 1.0):
        return 1.0 - x
    at_start = float(scipy.special.betainc(m, looks, 1 - x))
    log_rate = (looks - 0.5) * math.log(x) + (m - 0.5) * math.log1p(-x)
    log_rate += math.lgamma(m) - math.lgamma(m + 0.5) - float(scipy.special.betaln(looks, m))
    return min(1.0, at_start + window * bandwidth / math.sqrt(math.pi) * math.exp(log_rate))


@lru_cache(maxsize=256)
def peak_threshold(
    false_alarm: float, window_samples: float, bandwidth_rad: float, length: float, looks: int = 1
) -> float:
    """Return the metric that noise exceeds somewhere in the window with at most this probability."""
    wanted = real("false_alarm", false_alarm, 1e-15, 0.5)

    low, high = 0.0, 1.0
    while high - low > _RESOLUTION:  # the probability falls from 1 to 0; the import of scipy.optimize takes longer
        middle = (low + high) / 2
        if peak_probability(middle, window_samples, bandwidth_rad, length, looks) > wanted:
            low = middle
        else:
            high = middle
    return high
