# SPDX-License-Identifier: GPL-3.0-or-later
"""Which correction will the next round need? A bank of Kalman filters for one client.

The correction z that a client needs is its clock's rate error times the turnaround, and a constant. A rate that walks
at random makes z a random walk; a slow trend of the rate (temperature) makes it a slope, which dies away with time so
that a long pause does not carry it far. The state of a filter is (z, slope in samples a second).

How much the clock walks, how strong its trend is, and how much the measurements scatter beyond their bound is not known
beforehand. So a few dozen filters run side by side, one for each combination, and each has a say in the prediction
by how well it has predicted of late. A clock that walks more than assumed (follow it!) is thereby told apart from
echoes that scatter the measurements (do not follow them).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oac_blocks.loop.states import LoopSettings

Values = npt.NDArray[np.float64]

_WALKS = 4.0 ** np.arange(4)  # times the assumed walk
_TRENDS = np.array([1.0, 8.0])  # times the assumed trend
_SCATTERS = np.append(0.0, 2.0 ** np.arange(-7, 1))  # of the largest that is borne
_MEMORY_ROUNDS = 50  # over which predictions are judged
_WORST_ROUND = 8.0  # the most by which one round speaks for one filter against another: a surprise is no proof
_LEAST_VARIANCE = 1e-8  # samples^2: nothing here is known better


class _Beliefs(NamedTuple):
    """Of all filters: corrections and slopes, and their covariances."""

    needed: Values
    slope: Values
    p: Values
    cross: Values
    q: Values


class Tracker:
    """Follows z of one client. ``seconds`` is always the time since the last measurement that was taken in."""

    def __init__(self, settings: LoopSettings) -> None:
        samples_per_ppm = 1e-6 * settings.turnaround_samples
        walk, trend, scatter = (grid.ravel() for grid in np.meshgrid(_WALKS, _TRENDS, _SCATTERS, indexing="ij"))
        self._walk = (samples_per_ppm * settings.walk_ppm * walk) ** 2
        self._trend = (samples_per_ppm * settings.trend_ppm_per_second * trend) ** 2
        self._scatter = (settings.largest_scatter_samples * scatter) ** 2
        self._trend_seconds = settings.trend_seconds
        # What was assumed comes first: each step away from it needs a reason.
        steps = np.indices((len(_WALKS), len(_TRENDS), len(_SCATTERS))).sum(axis=0)
        self._prior = -0.5 * steps.ravel()
        self.forget()
        self.start(0.0, settings.largest_scatter_samples**2)

    def start(self, needed: float, variance: float) -> None:
        """Begin at this correction. What was learnt of walk and scatter stays."""
        zeros = np.zeros(len(self._walk))
        self._now = _Beliefs(zeros + needed, zeros, zeros + max(variance, _LEAST_VARIANCE), zeros, self._trend)
        self._ahead_of: tuple[float, _Beliefs] | None = None
        self._predicted: tuple[float, tuple[float, float]] | None = None

    def forget(self) -> None:
        """Forget walk and scatter."""
        self._judge(self._prior)
        self._kept: Values | None = None

    @property
    def scatter_samples(self) -> float:
        """Standard deviation of the measurements beyond their bound."""
        return math.sqrt(float(self._weights @ self._scatter))

    def predict(self, seconds: float) -> tuple[float, float]:
        """The correction that is needed ``seconds`` after the last measurement, and its variance."""
        if self._predicted is None or self._predicted[0] != seconds:
            self._predicted = seconds, self._mixed(self._ahead(seconds), 0.0)
        return self._predicted[1]

    def innovation(self, needed: float, variance: float, seconds: float) -> tuple[float, float]:
        """How far a measured correction is from the predicted one, and the standard deviation that this should have."""
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
        """Judge the filters by a measured correction that is not followed (yet): see ``unlearn``."""
        if self._kept is None:
            self._kept = self._merit
        ahead = self._ahead(seconds)
        total = ahead.p + self._scatter + max(variance, _LEAST_VARIANCE)
        evidence = -0.5 * (np.log(total) + (needed - ahead.needed) ** 2 / total)
        evidence = np.maximum(evidence - evidence.max(), -_WORST_ROUND)
        keep = 1 - 1 / _MEMORY_ROUNDS
        self._judge(keep * self._merit + (1 - keep) * self._prior + evidence)

    def unlearn(self) -> None:
        """Take back what was learnt since the last measurement that was followed."""
        if self._kept is not None:
            self._judge(self._kept)
            self._kept = None

    def _judge(self, merit: Values) -> None:
        """Merits are logarithms of weights."""
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
