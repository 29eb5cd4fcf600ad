# SPDX-License-Identifier: GPL-3.0-or-later
"""Predict the correction that a client needs in the next round with a bank of Kalman filters.

The correction z of a client is its clock's rate error times the turnaround, plus a constant. If the rate walks at
random, z is a random walk. A slow trend of the rate (temperature) makes it a slope, which decays with time so that a
long pause does not extrapolate it far. The state of a filter is (z, slope in samples per second).

The strength of the clock's walk, the strength of its trend and the scatter of the measurements beyond their bound are
not known beforehand. A few dozen filters therefore run in parallel, one for each combination, and each has a weight in
the prediction that depends on its recent predictions. This distinguishes a clock that walks more than assumed, which
the tracker should follow, from multipath that scatters the measurements, which it should not follow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oac_blocks.loop.states import LoopSettings

Values = npt.NDArray[np.float64]

_WALKS = 4.0 ** np.arange(4)  # factors of the assumed walk
_TRENDS = np.array([1.0, 8.0])  # factors of the assumed trend
_SCATTERS = np.append(0.0, 2.0 ** np.arange(-7, 1))  # shares of the largest permitted scatter
_MEMORY_ROUNDS = 50  # rounds over which predictions are judged
_WORST_ROUND = 8.0  # largest change of a log weight by one round: a single surprise is no proof
_LEAST_VARIANCE = 1e-8  # samples^2, lower limit of all variances


class _Beliefs(NamedTuple):
    """Corrections, slopes and covariances of all filters."""

    needed: Values
    slope: Values
    p: Values
    cross: Values
    q: Values


class Tracker:
    """Track z of one client. ``seconds`` is always the time since the last measurement that was followed."""

    def __init__(self, settings: LoopSettings) -> None:
        samples_per_ppm = 1e-6 * settings.turnaround_samples
        walk, trend, scatter = (grid.ravel() for grid in np.meshgrid(_WALKS, _TRENDS, _SCATTERS, indexing="ij"))
        self._walk = (samples_per_ppm * settings.walk_ppm * walk) ** 2
        self._trend = (samples_per_ppm * settings.trend_ppm_per_second * trend) ** 2
        self._scatter = (settings.largest_scatter_samples * scatter) ** 2
        self._trend_seconds = settings.trend_seconds
        # The assumed values start with the largest weight, and each step away from them with a smaller one.
        steps = np.indices((len(_WALKS), len(_TRENDS), len(_SCATTERS))).sum(axis=0)
        self._prior = -0.5 * steps.ravel()
        self.forget()
        self.start(0.0, settings.largest_scatter_samples**2)

    def start(self, needed: float, variance: float) -> None:
        """Begin at this correction; the learnt walk and scatter stay."""
        zeros = np.zeros(len(self._walk))
        self._now = _Beliefs(zeros + needed, zeros, zeros + max(variance, _LEAST_VARIANCE), zeros, self._trend)
        self._ahead_of: tuple[float, _Beliefs] | None = None
        self._predicted: tuple[float, tuple[float, float]] | None = None

    def forget(self) -> None:
        """Forget the learnt walk and scatter."""
        self._judge(self._prior)
        self._kept: Values | None = None

    @property
    def scatter_samples(self) -> float:
        """Return the standard deviation of the measurements beyond their bound."""
        return math.sqrt(float(self._weights @ self._scatter))

    def predict(self, seconds: float) -> tuple[float, float]:
        """Return the predicted correction ``seconds`` after the last measurement, and its variance."""
        if self._predicted is None or self._predicted[0] != seconds:
            self._predicted = seconds, self._mixed(self._ahead(seconds), 0.0)
        return self._predicted[1]

    def innovation(self, needed: float, variance: float, seconds: float) -> tuple[float, float]:
        """Return the deviation of a measured correction from the prediction, and its expected standard deviation."""
        predicted, total = self._mixed(self._ahead(seconds), self._scatter + max(variance, _LEAST_VARIANCE))
        return needed - predicted, math.sqrt(total)

    def take(self, needed: float, variance: float, seconds: float) -> None:
        """Follow a measured correction."""
        self.learn(needed, variance, seconds)
        self._kept = None
        ahead = self._ahead(seconds)
        total = ahead.p + self._scatter + max(variance, _LEAST_VARIANCE)
        gain, gain_slope = ahead.p / total, ahead.cross / total
        error = needed - ahead.needed
        self._now = _Beliefs(
            ahead.needed + gain * error,
            ahead.slope + gain_slope * error,
            np.maximum((1 - gain) * ahead.p, _LEAST_VARIANCE),
            (1 - gain) * ahead.cross,
            np.maximum(ahead.q - gain_slope * ahead.cross, 0.0),
        )
        self._ahead_of = self._predicted = None

    def learn(self, needed: float, variance: float, seconds: float) -> None:
        """Judge the filters by a measured correction that is not followed yet; see ``unlearn``."""
        if self._kept is None:
            self._kept = self._merit
        ahead = self._ahead(seconds)
        total = ahead.p + self._scatter + max(variance, _LEAST_VARIANCE)
        evidence = -0.5 * (np.log(total) + (needed - ahead.needed) ** 2 / total)
        evidence = np.maximum(evidence - evidence.max(), -_WORST_ROUND)
        keep = 1 - 1 / _MEMORY_ROUNDS
        self._judge(keep * self._merit + (1 - keep) * self._prior + evidence)

    def unlearn(self) -> None:
        """Undo what was learnt since the last measurement that was followed."""
        if self._kept is not None:
            self._judge(self._kept)
            self._kept = None

    def _judge(self, merit: Values) -> None:
        """Update the weights of the filters; ``merit`` holds logarithms of weights."""
        weights = np.exp(merit - merit.max())
        self._merit, self._weights = merit, weights / weights.sum()
        self._predicted = None

    def _mixed(self, beliefs: _Beliefs, noise: Values | float) -> tuple[float, float]:
        mean = float(self._weights @ beliefs.needed)
        return mean, float(self._weights @ (beliefs.p + noise + (beliefs.needed - mean) ** 2))

    def _ahead(self, seconds: float) -> _Beliefs:
        if self._ahead_of is not None and self._ahead_of[0] == seconds:
            return self._ahead_of[1]
        now = self._now
        decay = math.exp(-seconds / self._trend_seconds)
        reach = self._trend_seconds * (1 - decay)
        ahead = _Beliefs(
            now.needed + reach * now.slope,
            decay * now.slope,
            now.p + 2 * reach * now.cross + reach**2 * now.q + self._walk * seconds,
            decay * (now.cross + reach * now.q),
            decay**2 * now.q + (1 - decay**2) * self._trend,
        )
        self._ahead_of = seconds, ahead
        return ahead
