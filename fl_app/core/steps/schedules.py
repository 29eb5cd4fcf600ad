# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the learning rate of a round: constant, in steps, exponential or along a cosine, after a linear warm-up.

A schedule is a pure function of the round, so that a resumed run and a client that joins late have the right rate at
once. The names and the formulas are those of ``torch.optim.lr_scheduler``, with a round in place of an epoch:

| schedule | rate in round t, u rounds after the warm-up | torch |
|---|---|---|
| constant | base | |
| step | base * factor^floor(u / every) | StepLR |
| exponential | base * factor^u | ExponentialLR |
| cosine | floor + (base - floor) (1 + cos(pi u / U)) / 2, U rounds being left after the warm-up | CosineAnnealingLR |

The warm-up of W rounds grows in equal steps and ends at base: base (t + 1) / (W + 1) in round t < W, which is LinearLR
with ``start_factor=1 / (W + 1)``. The schedule begins in round W, as behind torch's SequentialLR.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.names import canonical

SCHEDULES = ("constant", "step", "exponential", "cosine")


@dataclass(frozen=True)
class RateSchedule:
    """Give the learning rate of each round.

    Parameters
    ----------
    base
        The learning rate, 0 or more.
    rounds
        Rounds of the run. A cosine would reach its floor in the round after the last one, and stays there.
    name
        One of SCHEDULES.
    factor
        Of "step" and "exponential": the rate is multiplied by it, above 0 and at most 1.
    every
        Of "step": rounds between two multiplications.
    floor
        Of "cosine": the rate that it leads to, 0 to base.
    warmup
        Rounds of the warm-up, fewer than the run has; 0 is none.

    Examples
    --------
    >>> halving = RateSchedule(0.08, rounds=6, name="step", factor=0.5, every=2, warmup=1)
    >>> [halving.rate(t) for t in range(6)]
    [0.04, 0.08, 0.08, 0.04, 0.04, 0.02]
    """

    base: float
    rounds: int
    name: str = "constant"
    factor: float = 0.1
    every: int = 1
    floor: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", canonical("schedule", self.name, SCHEDULES))
        real("base", self.base, 0.0)
        integer("rounds", self.rounds, 1)
        real("factor", self.factor, 0.0, 1.0, open_low=True)
        integer("every", self.every, 1)
        require(real("floor", self.floor, 0.0) <= self.base, "floor", self.floor, f"at most base, {self.base:g}")
        integer("warmup", self.warmup, 0, self.rounds - 1)

    def rate(self, t: int) -> float:
        """Return the learning rate of round t, which counts from 0."""
        t = integer("t", t, 0)
        if t < self.warmup:
            return self.base * (t + 1) / (self.warmup + 1)
        since = t - self.warmup
        if self.name == "step":
            return self.base * self.factor ** (since // self.every)
        if self.name == "exponential":
            return self.base * self.factor**since
        if self.name == "cosine":
            share = min(1.0, since / (self.rounds - self.warmup))
            return self.floor + (self.base - self.floor) * (1 + math.cos(math.pi * share)) / 2
        return self.base
