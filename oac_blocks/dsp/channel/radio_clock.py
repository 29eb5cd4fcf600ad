# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's clock against the server's, and what it does to the streams that go up and down.

Let C(t) be the client's count of samples at the server's time t, both 0 at the start. What it transmits arrives as
``C(t - arrival)``, and at its sample n it hears the server's ``C^-1(n) - arrival``: where the first runs at 1 + p, the
second runs at 1 / (1 + p). Two clocks of one seed and the same settings walk alike, so the link up and the link down of
one radio may each have their own.
"""

from __future__ import annotations

import math

import numpy as np

from oac_blocks.dsp.channel.multiple_access import MAX_PPM
from oac_blocks.dsp.channel.resampling import HOP


class RadioClock:
    """C(t) in steps of ``HOP`` samples of the server; within one the rate stays.

    All streams of a flowgraph advance one to one, so the count may run ``max_drift_samples`` away from the server's. It
    then slips: it is set back by just that many, in the link up as in the link down.
    """

    def __init__(
        self, ppm: float, walk_ppm: float, sample_rate_hz: float, max_drift_samples: int, seed: np.random.SeedSequence
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._root_step_seconds = (HOP / sample_rate_hz) ** 0.5
        self._max_drift_samples = max_drift_samples
        self.ppm = ppm
        self.walk_ppm = walk_ppm  # standard deviation of the rate after one second
        self.lead_samples = 0.0  # C(t) - t where the next step begins
        self.slips = 0

    def step(self) -> tuple[float, float]:
        """The lead at the beginning of the next step, and the rate within."""
        ppm = min(max(self.ppm, -MAX_PPM), MAX_PPM)
        rate = 1e-6 * ppm
        lead = self.lead_samples
        if abs(lead + rate * HOP) > self._max_drift_samples:
            lead -= math.copysign(self._max_drift_samples, lead)
            self.slips += 1
        self.lead_samples = lead + rate * HOP
        if self.walk_ppm:
            self.ppm = ppm + self.walk_ppm * self._root_step_seconds * self._rng.standard_normal()
        return lead, rate


class UpPath:
    """Which of the client's samples arrive in the server's blocks: C(t), less what the caller takes off as delay."""

    def __init__(self, clock: RadioClock, arrival_samples: float) -> None:
        self._clock = clock
        # C(t - arrival) is C(t) - (1 + p) arrival: the client's sample 0 arrives exactly after the delay.
        self._skew_samples = -1e-6 * clock.ppm * arrival_samples

    @property
    def drift_samples(self) -> float:
        return self._clock.lead_samples

    def step(self) -> tuple[float, float]:
        """For the next block: where it begins less where it would without a clock error, and by how much its samples
        are further apart than one."""
        lead, rate = self._clock.step()
        return lead + self._skew_samples, rate


class DownPath:
    """Which of the server's samples arrive in the client's blocks: C^-1(n), straight from border to border.

    In a block whose rate changes on the way that leaves an error of a quarter of ``HOP`` times the change, at 20 Msps
    and a walk of 1 ppm some 4e-6 samples.
    """

    def __init__(self, clock: RadioClock) -> None:
        self._clock = clock
        self._behind = 0  # blocks by which the clock's step began before the client's block, on their own axes
        self._lead, self._rate = clock.step()
        self._lag = 0.0  # C^-1(n) - n at the next block's beginning

    @property
    def drift_samples(self) -> float:
        return -self._lag

    def step(self) -> tuple[float, float]:
        slips = self._clock.slips
        # The step in which the block ends; after a slip of a fast clock some steps lie between.
        while self._lead + self._rate * HOP < self._behind * HOP:
            self._lead, self._rate = self._clock.step()
            self._behind -= 1
        begin = self._lag if self._clock.slips == slips else self._lag_after(0)
        self._lag = self._lag_after(HOP)
        self._behind += 1
        return begin, (self._lag - begin) / HOP

    def _lag_after(self, samples: int) -> float:
        return -(self._lead + (self._behind * HOP + samples) * self._rate) / (1 + self._rate)
