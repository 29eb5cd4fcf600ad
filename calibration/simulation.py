# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the loop against virtual radios round by round, and record the true values beside the loop's estimates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.faults import Fault
from calibration.virtual import RoundResult, VirtualRadios, VirtualSettings
from oac_blocks.dsp.checks import integer
from oac_blocks.loop.closed_loop import ClientView, Loop, LoopSettings, Plan

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Played:
    """One simulated round."""

    plan: Plan
    result: RoundResult
    views: tuple[ClientView, ...]  # states of the clients after the round

    def log_line(self) -> tuple[int, str, float, list[str], dict[str, Floats]]:
        """Return the round in the form that ``calibration.log`` writes."""
        arrivals, views = self.result.arrivals, self.views
        heard = np.full(len(views), np.nan)
        for answer in self.result.answers:
            heard[answer.client] = answer.trigger_sample
        columns = {
            "offset_samples": arrivals.offset_samples,
            "sigma_samples": arrivals.sigma_samples,
            "residual_samples": self.result.residual_samples,
            "correction_samples": np.array([view.correction_samples for view in views]),
            "doubt_samples": np.array([view.sigma_samples for view in views]),
            "client_sample": heard,
            "drift_ppm": np.array([view.drift_ppm for view in views]),
            "power_db": arrivals.power_db,
            "gain_db": np.array([view.gain_db for view in views]),
        }
        states: list[str] = [view.state for view in views]
        return self.plan.round, self.plan.kind, arrivals.trigger_sample, states, columns


def loop_for(settings: VirtualSettings, loop: LoopSettings | None = None) -> Loop:
    """Return a loop that knows only the turnaround and the sample rate of the radios."""
    loop = LoopSettings() if loop is None else loop
    known = dataclasses.replace(
        loop,
        turnaround_samples=float(settings.layout.answer_samples),
        sample_rate_hz=settings.layout.num.sample_rate_hz,
    )
    return Loop(settings.layout.clients, known)


def play(loop: Loop, radios: VirtualRadios, rounds: int) -> Iterator[Played]:
    """Run rounds of the loop on the radios and yield each of them."""
    for _ in range(integer("rounds", rounds, 1)):
        plan = loop.plan()
        result = radios.play(plan)
        for gap in result.gaps:
            loop.gap(*gap)
        for answer in result.answers:
            loop.answered(answer)
        loop.measured(result.arrivals)
        yield Played(plan, result, loop.clients)


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation; ``residual_samples`` (rounds, N) are true values of payload rounds, NaN elsewhere."""

    tracking: npt.NDArray[np.bool_]  # (rounds, N): whether each client was tracking after each round
    residual_samples: Floats
    kinds: tuple[str, ...]

    @property
    def rounds_to_lock(self) -> int | None:
        """Return the number of rounds until all clients were tracking for the first time; None if never."""
        locked = self.tracking.all(axis=1)
        return int(np.argmax(locked)) + 1 if locked.any() else None

    @property
    def all_tracking(self) -> bool:
        """Return whether all clients are tracking at the end."""
        return bool(self.tracking[-1].all())

    def after_lock(self) -> Floats:
        """Return all true residuals of payload after the lock in one row, without the first payload round."""
        lock = self.rounds_to_lock
        if lock is None:
            return np.empty(0)
        later = self.residual_samples[lock + 1 :]
        return later[np.isfinite(later)]

    @property
    def residual_rms_samples(self) -> float | None:
        """Return the RMS value of ``after_lock``; None if there is none."""
        left = self.after_lock()
        return float(np.sqrt(np.mean(left**2))) if left.size else None

    @property
    def residual_max_samples(self) -> float | None:
        """Return the largest magnitude of ``after_lock``; None if there is none."""
        left = self.after_lock()
        return float(np.max(np.abs(left))) if left.size else None


def simulate(
    settings: VirtualSettings,
    rounds: int,
    loop: Loop | None = None,
    faults: Iterable[Fault] = (),
    each: Callable[[Played], None] | None = None,
) -> Outcome:
    """Run a simulation and return its result; ``each`` is called after every round."""
    loop = loop_for(settings) if loop is None else loop
    tracking, residuals, kinds = [], [], []
    for played in play(loop, VirtualRadios(settings, faults), rounds):
        tracking.append([view.state == "tracking" for view in played.views])
        payload = played.plan.kind == "payload"
        residuals.append(played.result.residual_samples if payload else np.full(len(played.views), np.nan))
        kinds.append(played.plan.kind)
        if each is not None:
            each(played)
    return Outcome(np.array(tracking), np.array(residuals), tuple(kinds))
