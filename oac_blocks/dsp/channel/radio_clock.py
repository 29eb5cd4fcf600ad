# SPDX-License-Identifier: GPL-3.0-or-later
"""Track a client's clock against the server's, block by block, for the uplink and the downlink of a stream.

Let C(t) be the client's sample count at the server's time t; both are 0 at the start. The client's transmission
arrives as ``C(t - arrival)``, and at its sample n the client receives the server's sample ``C^-1(n) - arrival``. If the
uplink runs at rate 1 + p, the downlink runs at 1 / (1 + p). Two clocks with the same seed and settings walk alike, so
the uplink and the downlink of one radio may each have a clock object of their own.

The rate follows the law of ``crystal`` in steps of ``HOP`` samples, because the resampler needs a constant rate in each
block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from oac_blocks.dsp.channel.crystal import bounded_ppm, walk_sigma_ppm
from oac_blocks.dsp.channel.resampling import HOP

_DRAWN_AT_ONCE = 256


class RadioClock:
    """The count C(t) in steps of ``HOP`` server samples, with a constant rate in each step.

    All streams of a flowgraph advance one to one, so the count may differ from the server's by at most
    ``max_drift_samples``. Then the clock slips: its count is set back by exactly that many samples, in the uplink and
    in the downlink. ``ppm`` and ``walk_ppm`` may change between two steps.
    """

    def __init__(
        self, ppm: float, walk_ppm: float, sample_rate_hz: float, max_drift_samples: int, seed: np.random.SeedSequence
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._step_seconds = HOP / sample_rate_hz
        self._max_drift_samples = max_drift_samples
        self._normals: Iterator[float] = iter(())
        self.ppm = ppm
        self.walk_ppm = walk_ppm  # standard deviation of the rate's random walk after one second, in ppm
        self.lead_samples = 0.0  # C(t) - t at the beginning of the next step
        self.slips = 0

    def step(self) -> tuple[float, float]:
        """Return the lead at the beginning of the next step, and the rate within it."""
        ppm = bounded_ppm(float(self.ppm))
        rate = 1e-6 * ppm
        lead = self.lead_samples
        if abs(lead + rate * HOP) > self._max_drift_samples:
            lead -= math.copysign(self._max_drift_samples, lead)
            self.slips += 1
        self.lead_samples = lead + rate * HOP
        if self.walk_ppm:
            self.ppm = ppm + walk_sigma_ppm(self.walk_ppm, self._step_seconds) * self._normal()
        return lead, rate

    def _normal(self) -> float:
        # The generator draws many numbers in the time of two.
        if (number := next(self._normals, None)) is None:
            self._normals = iter(self._rng.standard_normal(_DRAWN_AT_ONCE).tolist())
            return next(self._normals)
        return number


class UpPath:
    """The positions of the server's blocks in the client's samples: C(t). The caller subtracts the delay."""

    def __init__(self, clock: RadioClock, arrival_samples: float) -> None:
        self._clock = clock
        # C(t - arrival) is C(t) - (1 + p) arrival, so the client's sample 0 arrives exactly after the delay.
        self._skew_samples = -1e-6 * clock.ppm * arrival_samples

    @property
    def drift_samples(self) -> float:
        """Return how far the client's clock has run ahead, in samples."""
        return self._clock.lead_samples

    def step(self) -> tuple[float, float]:
        """Return the shift of the next block against a block without clock error, and the rate within it."""
        lead, rate = self._clock.step()
        return lead + self._skew_samples, rate


class DownPath:
    """The positions of the client's blocks in the server's samples: C^-1(n), linear within each block.

    In a block in which the rate changes, this leaves an error of a quarter of ``HOP`` times the change: about 4e-6
    samples at 20 Msps with a walk of 1 ppm.
    """

    def __init__(self, clock: RadioClock) -> None:
        self._clock = clock
        self._behind = 0  # blocks between the clock's step and the client's block, each counted on its own axis
        self._lead, self._rate = clock.step()
        self._lag = 0.0  # C^-1(n) - n at the beginning of the next block

    @property
    def drift_samples(self) -> float:
        """Return how far the client's clock has run ahead, in samples."""
        return -self._lag

    def step(self) -> tuple[float, float]:
        """Return the shift of the next block against a block without clock error, and the rate within it."""
        slips = self._clock.slips
        # Find the step in which the block ends. After a slip of a fast clock some steps lie in between.
        while self._lead + self._rate * HOP < self._behind * HOP:
            self._lead, self._rate = self._clock.step()
            self._behind -= 1
        begin = self._lag if self._clock.slips == slips else self._lag_after(0)
        self._lag = self._lag_after(HOP)
        self._behind += 1
        return begin, (self._lag - begin) / HOP

    def _lag_after(self, samples: int) -> float:
        return -(self._lead + (self._behind * HOP + samples) * self._rate) / (1 + self._rate)
