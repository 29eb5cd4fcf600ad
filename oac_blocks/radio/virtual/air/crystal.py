# SPDX-License-Identifier: GPL-3.0-or-later
"""A radio's one crystal: converters and oscillators run on it, so that clock and carrier are off by the same share.

Its *lead* is its own time less true time, in seconds. The rate is constant over steps of ``STEP_SECONDS``; the lead is
straight in between. Rates are drawn step after step, so that they do not depend on who asks when.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import real

STEP_SECONDS = 1e-3
_MOST_PPM = 1000.0
_ROUNDING_SECONDS = 1e-13
_ROUNDS = 4
_KEPT_STEPS = 1 << 16  # about a minute of the past
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CrystalSettings:
    ppm: float = 0.0
    walk_ppm: float = 0.0  # standard deviation of the rate's random walk after one second
    wobble_ppm: float = 0.0  # amplitude of a slow sine
    wobble_seconds: float = 20.0
    wobble_turns: float = 0.0  # its phase at time 0

    def __post_init__(self) -> None:
        real("ppm", self.ppm, -_MOST_PPM, _MOST_PPM)
        real("walk_ppm", self.walk_ppm, 0.0, _MOST_PPM)
        real("wobble_ppm", self.wobble_ppm, 0.0, _MOST_PPM)
        real("wobble_seconds", self.wobble_seconds, 0.01)
        real("wobble_turns", self.wobble_turns)


class Crystal:
    def __init__(self, settings: CrystalSettings, seed: np.random.SeedSequence) -> None:
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._walked_ppm = 0.0
        self._added: list[tuple[float, float]] = []  # (from this time on, ppm): a step of the rate that is to come
        self._added_ppm = 0.0  # the sum of those that came
        self._first = 0  # number of the oldest step that is kept
        self._lead = np.zeros(1)  # at the beginning of each step, and at the end of the last

    def add_ppm(self, ppm: float, from_seconds: float) -> None:
        """The rate changes by this much from then on, as soon as a step that is not drawn yet begins."""
        self._added.append((from_seconds, real("ppm", ppm, -_MOST_PPM, _MOST_PPM)))
        self._added.sort(key=lambda one: one[0])

    def rate_ppm(self, seconds: float) -> float:
        """The rate in the step that this time falls into."""
        begin = STEP_SECONDS * math.floor(seconds / STEP_SECONDS)
        ends = self.lead(np.array([begin, begin + STEP_SECONDS]))
        return float(ends[1] - ends[0]) / STEP_SECONDS * 1e6

    def lead(self, seconds: Floats) -> Floats:
        """Own time less true time, at these true times; before time 0 the crystal ran true."""
        self._reach(float(np.max(seconds)))
        steps = np.asarray(seconds, np.float64) / STEP_SECONDS - self._first
        index = np.clip(np.floor(steps).astype(np.int64), 0, len(self._lead) - 2)
        share = np.maximum(steps - index, 0.0)
        begin = self._lead[index]
        return begin + share * (self._lead[index + 1] - begin)

    def lead_at(self, seconds: float) -> float:
        """``lead`` of one time, to the bit: arrays of one element are slow, and this is asked for all the time."""
        self._reach(seconds)
        steps = seconds / STEP_SECONDS - self._first
        index = min(max(math.floor(steps), 0), len(self._lead) - 2)
        begin, end = self._lead[index : index + 2].tolist()
        return float(begin + max(steps - index, 0.0) * (end - begin))

    def true_at(self, own_seconds: float) -> float:
        """``true_seconds`` of one time, to the bit."""
        true = own_seconds - self.lead_at(own_seconds)
        for _ in range(_ROUNDS):
            before, true = true, own_seconds - self.lead_at(true)
            if abs(true - before) < _ROUNDING_SECONDS:
                break
        return true

    def true_seconds(self, own_seconds: Floats) -> Floats:
        """When the crystal shows these times."""
        own = np.asarray(own_seconds, np.float64)
        # The lead changes by less than a thousandth of what the time is off by.
        true = own - self.lead(own)
        for _ in range(_ROUNDS):
            before, true = true, own - self.lead(true)
            if np.max(np.abs(true - before)) < _ROUNDING_SECONDS:
                break
        return true

    def _reach(self, seconds: float) -> None:
        while (missing := math.ceil(seconds / STEP_SECONDS) + 1 - (self._first + len(self._lead) - 1)) > 0:
            self._draw(min(missing, _KEPT_STEPS))

    def _draw(self, missing: int) -> None:
        begin = self._first + len(self._lead) - 1
        times = STEP_SECONDS * (begin + np.arange(missing))
        s = self._settings
        ppm = np.full(missing, float(s.ppm))
        if s.walk_ppm:
            walk = s.walk_ppm * math.sqrt(STEP_SECONDS) * self._rng.standard_normal(missing)
            path = _running_sum(self._walked_ppm, walk)
            ppm += path
            self._walked_ppm = float(path[-1])
        if s.wobble_ppm:
            ppm += s.wobble_ppm * np.sin(2 * np.pi * (times / s.wobble_seconds + s.wobble_turns))
        # In the order of their times, so that the rounding does not depend on how many steps are drawn at a time.
        added_ppm = np.full(missing, self._added_ppm)
        for start, added in self._added:
            added_ppm[times >= start - 1e-9] += added
        self._added_ppm = float(added_ppm[-1])
        self._added = [one for one in self._added if one[0] - 1e-9 > times[-1]]
        ppm += added_ppm
        ppm = np.clip(ppm, -_MOST_PPM, _MOST_PPM)
        lead = _running_sum(float(self._lead[-1]), 1e-6 * ppm * STEP_SECONDS)
        self._lead = np.concatenate((self._lead, lead))
        if len(self._lead) > 2 * _KEPT_STEPS:
            cut = len(self._lead) - _KEPT_STEPS
            self._first, self._lead = self._first + cut, self._lead[cut:]


def _running_sum(start: float, steps: Floats) -> Floats:
    """Step after step, so that the rounding is the same however many are asked for at a time."""
    return np.cumsum(np.concatenate(([start], steps)))[1:]
