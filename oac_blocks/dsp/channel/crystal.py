# SPDX-License-Identifier: GPL-3.0-or-later
"""Model the one clock of a radio: a crystal with a rate error, a random walk, a thermal swing and rate steps.

The converters and the oscillator of a radio run on one crystal, so its sample clock and its carrier have the same
relative error. The rate error, in ppm at the true time t, is

    rate(t) = bound(ppm + W(t) + wobble_ppm sin(2 pi (t / wobble_seconds + wobble_turns)) + steps(t))

W is a random walk that begins at 0 and has a standard deviation of ``walk_ppm`` after one second. ``steps`` is the sum
of the rate steps up to time t. ``bound`` keeps the rate within ``MAX_PPM``. The rate is constant during each time step.

``walk_sigma_ppm``, ``walk_path_ppm``, ``swing_ppm`` and ``bounded_ppm`` are the parts of this law, for simulations with
time steps of their own. ``Crystal`` is the clock itself and can be evaluated at any time. Its *lead* is its own time
minus the true time, the integral of the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import MAX_PPM, real

STEP_SECONDS = 1e-3  # seconds over which a ``Crystal`` keeps its rate
_ROUNDING_SECONDS = 1e-13
_ROUNDS = 4
_KEPT_STEPS = 1 << 16  # number of past steps that are kept: about a minute
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CrystalSettings:
    """Parameters of a crystal.

    Parameters
    ----------
    ppm : float
        Rate error at time 0, without the swing.
    walk_ppm : float
        Standard deviation of the rate's random walk after one second.
    wobble_ppm, wobble_seconds, wobble_turns : float
        Amplitude, period and initial phase (in turns) of a slow sine that models the temperature.
    """

    ppm: float = 0.0
    walk_ppm: float = 0.0
    wobble_ppm: float = 0.0
    wobble_seconds: float = 20.0
    wobble_turns: float = 0.0

    def __post_init__(self) -> None:
        real("ppm", self.ppm, -MAX_PPM, MAX_PPM)
        real("walk_ppm", self.walk_ppm, 0.0, MAX_PPM)
        real("wobble_ppm", self.wobble_ppm, 0.0, MAX_PPM)
        real("wobble_seconds", self.wobble_seconds, 0.01)
        real("wobble_turns", self.wobble_turns)


@overload
def bounded_ppm(ppm: float) -> float: ...
@overload
def bounded_ppm(ppm: Floats) -> Floats: ...
def bounded_ppm(ppm: float | Floats) -> float | Floats:
    """Return the rate error, limited to ``MAX_PPM``."""
    # numpy takes microseconds for a single number, and streams ask for one number at a time.
    if isinstance(ppm, float):
        return min(max(ppm, -MAX_PPM), MAX_PPM)
    return np.clip(ppm, -MAX_PPM, MAX_PPM)


@overload
def walk_sigma_ppm(walk_ppm: float, step_seconds: float) -> float: ...
@overload
def walk_sigma_ppm(walk_ppm: Floats, step_seconds: float) -> Floats: ...
def walk_sigma_ppm(walk_ppm: float | Floats, step_seconds: float) -> float | Floats:
    """Return the standard deviation of the random walk's change over one time step."""
    return walk_ppm * math.sqrt(step_seconds)


def walk_path_ppm(start_ppm: Floats, walk_ppm: float | Floats, step_seconds: float, normals: Floats) -> Floats:
    """Return the rates of N crystals that follow a random walk, step by step.

    Parameters
    ----------
    start_ppm : ndarray, shape (N,)
        Rates in the first step.
    walk_ppm : float or ndarray, shape (N,)
        Standard deviations of the walks after one second.
    step_seconds : float
        Length of a step.
    normals : ndarray, shape (N, steps)
        Independent standard normal numbers, from the caller's generator.

    Returns
    -------
    ndarray, shape (N, steps + 1)
        The rate in each step. The last column is the rate after the last step, where a further path begins.
    """
    start = start_ppm[:, None]
    sigma = walk_sigma_ppm(np.reshape(np.asarray(walk_ppm, np.float64), (-1, 1)), step_seconds)
    walk = np.cumsum(sigma * normals, axis=1)
    return bounded_ppm(np.concatenate((start, start + walk), axis=1))


def swing_ppm(seconds: Floats, settings: CrystalSettings) -> Floats:
    """Return the thermal part of the rate at these true times."""
    swing: Floats = np.sin(2 * np.pi * (seconds / settings.wobble_seconds + settings.wobble_turns))
    return settings.wobble_ppm * swing


class Crystal:
    """A clock that can be evaluated at any time.

    The same settings and seed give the same clock, independent of the order and number of the queries. The rate is
    constant over steps of ``STEP_SECONDS``, so the lead is linear within a step. Rates are drawn in the order of steps.
    """

    def __init__(self, settings: CrystalSettings, seed: np.random.SeedSequence) -> None:
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._walked_ppm = 0.0  # value of the random walk at the first step that is not drawn yet
        self._steps: list[tuple[float, float]] = []  # (time in seconds, ppm) of the future rate steps
        self._stepped_ppm = 0.0  # sum of the past rate steps
        self._first = 0  # index of the oldest step that is kept
        self._lead = np.zeros(1)  # lead in seconds at the beginning of each step, and at the end of the last one

    def add_ppm(self, ppm: float, from_seconds: float) -> None:
        """Change the rate by ``ppm`` from a time on, at the earliest from the first step that is not drawn yet."""
        self._steps.append((from_seconds, real("ppm", ppm, -MAX_PPM, MAX_PPM)))
        self._steps.sort(key=lambda one: one[0])

    def rate_ppm(self, seconds: float) -> float:
        """Return the rate error in the step that contains this time."""
        begin = STEP_SECONDS * math.floor(seconds / STEP_SECONDS)
        ends = self.lead(np.array([begin, begin + STEP_SECONDS]))
        return float(ends[1] - ends[0]) / STEP_SECONDS * 1e6

    def lead(self, seconds: Floats) -> Floats:
        """Return the clock's own time minus the true time at these true times; 0 before time 0."""
        self._reach(float(np.max(seconds)))
        steps = np.asarray(seconds, np.float64) / STEP_SECONDS - self._first
        index = np.clip(np.floor(steps).astype(np.int64), 0, len(self._lead) - 2)
        share = np.maximum(steps - index, 0.0)
        begin = self._lead[index]
        return begin + share * (self._lead[index + 1] - begin)

    def lead_at(self, seconds: float) -> float:
        """Return ``lead`` at one time; the bits are the same, but it is faster than an array of one element."""
        self._reach(seconds)
        steps = seconds / STEP_SECONDS - self._first
        index = min(max(math.floor(steps), 0), len(self._lead) - 2)
        begin, end = self._lead[index : index + 2].tolist()
        return float(begin + max(steps - index, 0.0) * (end - begin))

    def true_at(self, own_seconds: float) -> float:
        """Return ``true_seconds`` of one time; the bits are the same, but it is faster than an array of one element."""
        true = own_seconds - self.lead_at(own_seconds)
        for _ in range(_ROUNDS):
            before, true = true, own_seconds - self.lead_at(true)
            if abs(true - before) < _ROUNDING_SECONDS:
                break
        return true

    def true_seconds(self, own_seconds: Floats) -> Floats:
        """Return the true times at which the clock shows these times."""
        own = np.asarray(own_seconds, np.float64)
        # The lead changes by less than a thousandth of the time error, so each iteration gains three digits.
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
            changes = walk_sigma_ppm(s.walk_ppm, STEP_SECONDS) * self._rng.standard_normal(missing)
            walk = _running_sum(self._walked_ppm, changes)
            ppm += walk[:-1]
            self._walked_ppm = float(walk[-1])
        if s.wobble_ppm:
            ppm += swing_ppm(times, s)
        # Rate steps are added in the order of their times, so that rounding does not depend on how many are drawn.
        stepped_ppm = np.full(missing, self._stepped_ppm)
        for start, added in self._steps:
            stepped_ppm[times >= start - 1e-9] += added
        self._stepped_ppm = float(stepped_ppm[-1])
        self._steps = [one for one in self._steps if one[0] - 1e-9 > times[-1]]
        lead = _running_sum(float(self._lead[-1]), 1e-6 * bounded_ppm(ppm + stepped_ppm) * STEP_SECONDS)
        self._lead = np.concatenate((self._lead, lead[1:]))
        if len(self._lead) > 2 * _KEPT_STEPS:
            cut = len(self._lead) - _KEPT_STEPS
            self._first, self._lead = self._first + cut, self._lead[cut:]


def _running_sum(start: float, steps: Floats) -> Floats:
    """Return the running sums from ``start`` on, one more than ``steps``; rounding does not depend on the pieces."""
    return np.cumsum(np.concatenate(([start], steps)))
