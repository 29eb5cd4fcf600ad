# SPDX-License-Identifier: GPL-3.0-or-later
"""Set k_M from round to round: FAIR-k that measures what selection by magnitude is worth.

The memory errs for two reasons. Its noise adds up, by the factor ``noise_gain`` of the noise power. Its entries are
old: let q be the power by which an entry of the gradient changes in a round, then the error of old values is q times
the mean age, less the share of the gradient's power that the magnitude set captures, which is always fresh.

When an entry is sent again, the server has two values of it with independent noise. Their product has the mean of the
squared gradient; half their squared difference has the mean U = noise + q/2. The server cannot tell the two apart. Each
is at most U, so that the error is at most U times

    noise_gain(s, k_M/k) + 2 (1 - captured share) (mean age),

and the policy takes the k_M with the least such bound. The age follows from the slots: the entries outside the
magnitude set take turns of (d - k_M) / k_A rounds. The ratio s of gradient to noise and the captured share are
measured: the magnitude set is sent in every round, and the age half is a sample of all other entries, each of which
stands for (d - k_M) / k_A of them. A magnitude set that consists of noise captures nothing.
"""

from __future__ import annotations

import base64
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.noise_gain import Setting, noise_gain
from fl_app.core.pools.arrays import Indices
from fl_app.core.selection import FairK
from oac_blocks.dsp.checks import integer, real

RATIOS = tuple(step / 10 for step in range(10))  # values of k_M/k that are compared; 1 would leave no sample
FORGETTING = 0.9  # weight of the sums of earlier rounds against the round that follows
HORIZON = 100  # rounds over which a gradient is taken to have the same sign, so that noise that cancels it adds up
SIGNIFICANT = 3.0  # standard errors above which a measured power counts
LEAST_S, LARGEST_S = 0.03, 8.0  # range of the ratio of gradient to noise; below it there is only noise
_STUDENT_RMS = math.sqrt(3)  # RMS of a Student-t(3) variable, in which the theory of noise measures gradients

Floats = NDArray[np.float64]


def mean_age_of_turns(ratio: float, rho: float) -> float:
    """Return the mean age of all entries under FAIR-k, if the magnitude set stays the same.

    The other 1 - rho * ratio of the entries take turns, so that their ages are uniform from 0 to the turn less one.

    Parameters
    ----------
    ratio
        k_M/k, below 1.
    rho
        k/d.
    """
    others = 1 - real("rho", rho, 0.0, 1.0, open_low=True) * ratio
    return others * (others / (rho * (1 - ratio)) - 1) / 2


@lru_cache(maxsize=256)
def noise_gains(s: float, rho: float) -> tuple[float, ...]:
    """Return the noise gain of FAIR-k for each of RATIOS, at a ratio s of gradient to noise."""
    return tuple(noise_gain("fair-k", Setting(s, rho, ratio, HORIZON)).total for ratio in RATIOS)


class Repeats:
    """Measure gradient and noise by entries that are sent again.

    Attributes
    ----------
    sums
        Over the latest rounds: the gradient's power within the magnitude set of each of RATIOS, its power in all
        entries, and the power of all entries with their noise.
    variance
        Square of the standard error of the gradient's power in all entries.
    """

    def __init__(self) -> None:
        self.sums: Floats = np.zeros(len(RATIOS) + 2)
        self.variance = 0.0

    def add(self, old: NDArray[Any], new: NDArray[Any], thresholds: Floats, weight: NDArray[Any]) -> None:
        """Take the entries of a round: their values before and after, and how many entries each of them stands for.

        `thresholds` are the least magnitudes of the sets of RATIOS before the round.
        """
        old, new = old.astype(np.float64), new.astype(np.float64)
        power = weight * old * new
        inside = [float(power[np.abs(old) >= threshold].sum()) for threshold in thresholds]
        self.sums = FORGETTING * self.sums + np.array([*inside, power.sum(), (weight * new**2).sum()])
        self.variance = FORGETTING**2 * self.variance + float((power**2).sum())

    @property
    def sees_a_gradient(self) -> bool:
        """Return whether the gradient's power is above what noise alone may give."""
        return bool(self.sums[-2] > SIGNIFICANT * math.sqrt(self.variance))

    @property
    def captured(self) -> Floats:
        """Return the share of the gradient's power in the magnitude set of each of RATIOS; 0 if there is only noise."""
        *inside, gradient, _ = self.sums
        if not self.sees_a_gradient:
            return np.zeros(len(RATIOS))
        return np.clip(np.maximum.accumulate(inside) / gradient, 0.0, 1.0)

    @property
    def s(self) -> float:
        """Return the ratio of gradient to noise, as ``noise_gain`` has it, to the next power of the root of 2."""
        *_, gradient, everything = self.sums
        noise = everything - gradient
        if not self.sees_a_gradient:
            return 0.0
        if noise <= 0:
            return LARGEST_S
        ratio = float(np.sqrt(gradient / noise)) / _STUDENT_RMS
        return 0.0 if ratio < LEAST_S else min(2 ** (round(2 * float(np.log2(ratio))) / 2), LARGEST_S)

    def errors(self, rho: float) -> Floats:
        """Return the bound of the memory's error for each of RATIOS, in units of U."""
        ages = np.array([mean_age_of_turns(ratio, rho) for ratio in RATIOS])
        return np.array(noise_gains(self.s, rho)) + 2 * (1 - self.captured) * ages


class AdaptiveK(FairK):
    """Select as FAIR-k does, with the k_M of the least error by what was measured so far.

    Parameters
    ----------
    d, k, rng
        As of every policy.
    k_m
        k_M of the first rounds, before anything is measured.
    """

    name = "adaptive-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng, k_m)
        self.k_m = min(self.k_m, round(RATIOS[-1] * k))
        self.repeats = Repeats()
        self._old: NDArray[np.float32] | None = None  # the values of the selected entries before they are sent
        self._thresholds: Floats = np.zeros(len(RATIOS) + 1)  # least magnitudes of the sets of RATIOS, and of k_m

    def next(self, g: NDArray[Any], age: NDArray[Any]) -> Indices:
        g, age = np.asarray(g), np.asarray(age)
        if self._old is not None and g.shape == age.shape == (self.d,):
            self._measure(self._old, g[age == 0])  # the entries of the last round
        selected = super().next(g, age)
        values = g.astype(np.float32, copy=False)
        self._old = values[selected]
        self._thresholds = _thresholds(np.abs(values), [*(round(ratio * self.k) for ratio in RATIOS), self.k_m])
        return selected

    def _measure(self, old: NDArray[Any], new: NDArray[Any]) -> None:
        """Take the power of the entries that were sent, and set k_M by all that was measured."""
        if old.size != new.size:
            return  # these are not the entries that this policy selected
        *thresholds, own = self._thresholds
        sampled = np.abs(old) < own
        count = int(np.count_nonzero(sampled))
        weight = np.where(sampled, (self.d - self.k + count) / max(count, 1), 1.0)
        self.repeats.add(old, new, np.array(thresholds), weight)
        self.k_m = round(RATIOS[int(np.argmin(self.repeats.errors(self.k / self.d)))] * self.k)

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "k_m": self.k_m,
            "sums": self.repeats.sums.tolist(),
            "variance": self.repeats.variance,
            # JSON has no infinity, which is the threshold of an empty set.
            "thresholds": [float(one) if np.isfinite(one) else None for one in self._thresholds],
            "old": None if self._old is None else base64.b64encode(self._old.tobytes()).decode(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.k_m = integer("k_m", state["k_m"], 0, self.k)
        self.repeats.sums, self.repeats.variance = np.array(state["sums"], np.float64), float(state["variance"])
        self._thresholds = np.array([np.inf if one is None else one for one in state["thresholds"]], np.float64)
        old = state["old"]
        self._old = None if old is None else np.frombuffer(base64.b64decode(old), np.float32)


def _thresholds(magnitude: NDArray[Any], sizes: list[int]) -> Floats:
    """Return the least magnitude of magnitude sets of these sizes; infinite for an empty one."""
    places = [magnitude.size - size for size in sizes if size]
    ordered = np.partition(magnitude, places)
    return np.array([float(ordered[magnitude.size - size]) if size else np.inf for size in sizes])
