# SPDX-License-Identifier: GPL-3.0-or-later
"""Which correction will the next round need? A Kalman filter for one client.

The correction z that a client needs is its clock's rate error times the turnaround, and a constant. A rate that walks
at random makes z a random walk; a slow trend of the rate (temperature) makes it a slope, which dies away with time so
that a long pause does not carry it far. The state is (z, slope in samples a second).

How large the walk is, and how much the measurements scatter beyond their bound, is learnt from the measurements: of
z_r = level + noise, the differences d_r = z_r - z_{r-1} have E[d_r^2] = Q + 2 R and E[d_r d_{r-1}] = -R. So a walk that
is larger than assumed (follow it!) is told apart from echoes that scatter the measurements (do not follow them).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibration.states import LoopSettings

_MEMORY_ROUNDS = 32  # over which the differences are averaged
_PRIOR_ROUNDS = 4  # as many rounds' worth the assumed numbers count in the beginning
_LEAST_VARIANCE = 1e-8  # samples^2: nothing here is known better


@dataclass(frozen=True)
class Spread:
    """Running means of d_r^2, d_r d_{r-1} and the time between, and of what the bounds say R should be."""

    square: float
    product: float
    seconds: float
    bound: float
    weight: float = 1 / (_PRIOR_ROUNDS + 1)
    last: float = 0.0  # the difference before

    def observed(self, difference: float, seconds: float, variance: float) -> Spread:
        keep, take = 1 - self.weight, self.weight
        return Spread(
            keep * self.square + take * difference**2,
            keep * self.product + take * difference * self.last,
            keep * self.seconds + take * seconds,
            keep * self.bound + take * variance,
            max(1 / _MEMORY_ROUNDS, self.weight / (1 + self.weight)),
            difference,
        )

    def scatter(self) -> float:
        """Variance of the measurements beyond their bound."""
        return max(0.0, -self.product - self.bound)

    def walk(self) -> float:
        """Variance a second of the walk, less what the averages may be off by."""
        doubt = math.sqrt(self.weight) * self.square
        return max(0.0, self.square + 2 * self.product - doubt) / self.seconds


class Tracker:
    """Follows z of one client. ``seconds`` is always the time since the last measurement that was taken in."""

    def __init__(self, settings: LoopSettings) -> None:
        self._settings = settings
        samples_per_ppm = 1e-6 * settings.turnaround_samples
        self._walk = (samples_per_ppm * settings.walk_ppm) ** 2
        self._trend = (samples_per_ppm * settings.trend_ppm_per_second) ** 2
        self._most_scatter = settings.largest_scatter_samples**2
        self._spread: Spread | None = None
        self._kept: Spread | None = None
        self.start(0.0, self._most_scatter)

    def start(self, needed: float, variance: float) -> None:
        """Begin at this correction. What was learnt of walk and scatter stays."""
        self._needed, self._slope = needed, 0.0
        self._p, self._cross, self._q = max(variance, _LEAST_VARIANCE), 0.0, self._trend
        self._last = needed

    def forget(self) -> None:
        """Forget walk and scatter."""
        self._spread = self._kept = None

    @property
    def scatter_samples(self) -> float:
        """Standard deviation of the measurements beyond their bound, up to the limit."""
        return 0.0 if self._spread is None else math.sqrt(min(self._spread.scatter(), self._most_scatter))

    def predict(self, seconds: float) -> tuple[float, float]:
        """The correction that is needed ``seconds`` after the last measurement, and its variance."""
        needed, _, p, _, _ = self._ahead(seconds)
        return needed, p

    def innovation(self, needed: float, variance: float, seconds: float) -> tuple[float, float]:
        """How far a measured correction is from the predicted one, and the standard deviation that this should have."""
        predicted, p = self.predict(seconds)
        return needed - predicted, math.sqrt(p + self._measurement_variance(variance))

    def take(self, needed: float, variance: float, seconds: float) -> None:
        """Follow a measured correction."""
        self.learn(needed, variance, seconds)
        self._kept = None
        predicted, slope, p, cross, q = self._ahead(seconds)
        total = p + self._measurement_variance(variance)
        gain, gain_slope = p / total, cross / total
        error = needed - predicted
        self._needed, self._slope = predicted + gain * error, slope + gain_slope * error
        self._p, self._cross = max((1 - gain) * p, _LEAST_VARIANCE), (1 - gain) * cross
        self._q = max(q - gain_slope * cross, 0.0)

    def learn(self, needed: float, variance: float, seconds: float) -> None:
        """Learn walk and scatter from a measured correction that is not followed (yet): see ``unlearn``."""
        seconds = max(seconds, 1e-9)
        if self._spread is None:
            self._spread = Spread(self._walk * seconds + 2 * variance, -variance, seconds, variance)
        if self._kept is None:
            self._kept = self._spread
        limit = 2 * self._settings.largest_scatter_samples
        difference = min(max(needed - self._last - self._slope * seconds, -limit), limit)
        self._spread = self._spread.observed(difference, seconds, variance)
        self._last = needed

    def unlearn(self) -> None:
        """Take back what was learnt since the last measurement that was followed."""
        if self._kept is not None:
            self._spread, self._kept = self._kept, None

    def _measurement_variance(self, variance: float) -> float:
        return max(variance, _LEAST_VARIANCE) + self.scatter_samples**2

    def _ahead(self, seconds: float) -> tuple[float, float, float, float, float]:
        tau = self._settings.trend_seconds
        decay = math.exp(-seconds / tau)
        reach = tau * (1 - decay)
        walk = self._walk if self._spread is None else max(self._walk, self._spread.walk())
        p = self._p + 2 * reach * self._cross + reach**2 * self._q + walk * seconds
        cross = decay * (self._cross + reach * self._q)
        q = decay**2 * self._q + (1 - decay**2) * self._trend
        return self._needed + reach * self._slope, decay * self._slope, p, cross, q
