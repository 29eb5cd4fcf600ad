# SPDX-License-Identifier: GPL-3.0-or-later
"""The calibration tracker beside the best filter that there is and a fixed one; the loop's time beside a round's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from calibration.loop import Answer, Arrivals, Loop, LoopSettings
from calibration.states import Plan
from calibration.tracker import Tracker

SECONDS = 0.04  # from round to round
SETTINGS = LoopSettings(turnaround_samples=400_000.0)
BOUND = 0.01  # samples
ROUNDS = 4000
# Standard deviations in samples: the clock's step from round to round, and the measurements' scatter.
CASES = {
    "a walk of 0.1 ppm, as assumed": (0.008, 0.0),
    "a walk of 1 ppm": (0.08, 0.0),
    "a walk of 5 ppm": (0.4, 0.0),
    "echoes that scatter by 1 sample": (0.008, 1.0),
    "echoes and a walk of 2 ppm": (0.16, 1.0),
}


def tracker_errors(measured: np.ndarray) -> list[float]:
    tracker, predictions = Tracker(SETTINGS), []
    tracker.start(float(measured[0]), BOUND**2)
    for value in measured[1:].tolist():
        predictions.append(tracker.predict(SECONDS)[0])
        tracker.take(value, BOUND**2, SECONDS)
    return predictions


def alpha_beta(measured: np.ndarray, alpha: float = 0.6, beta: float = 0.2) -> list[float]:
    level, slope, predictions = float(measured[0]), 0.0, []
    for value in measured[1:].tolist():
        level += slope
        predictions.append(level)
        error = value - level
        level, slope = level + alpha * error, slope + beta * error
    return predictions


def last_value(measured: np.ndarray) -> list[float]:
    return measured[:-1].tolist()


def predictions(console: Console) -> None:
    table = Table(title=f"Predicted corrections: RMS error over that of the optimal filter (Riccati), {ROUNDS} rounds")
    for heading in ("", "optimal (samples)", "the tracker", "alpha-beta (0.6, 0.2)", "the last measurement"):
        table.add_column(heading)
    filters: tuple[Callable[[np.ndarray], list[float]], ...] = (tracker_errors, alpha_beta, last_value)
    for name, (walk, scatter) in CASES.items():
        rng = np.random.default_rng(1)
        true = np.cumsum(walk * rng.standard_normal(ROUNDS))
        noise = float(np.hypot(BOUND, scatter))
        measured = true + noise * rng.standard_normal(ROUNDS)
        best = float(scipy.linalg.solve_discrete_are(np.eye(1), np.eye(1), [[walk**2]], [[noise**2]])[0, 0]) ** 0.5
        errors = [np.array(predict(measured)) - true[1:] for predict in filters]
        table.add_row(name, f"{best:.4f}", *(f"{np.sqrt(np.mean(e[50:] ** 2)) / best:.2f}" for e in errors))
    console.print(table)


class Rounds:
    """A loop that is fed the same kind of round over and over."""

    def __init__(self, clients: int) -> None:
        self.loop = Loop(clients, SETTINGS)
        self.clients = clients
        self.rng = np.random.default_rng(1)
        for _ in range(5):
            self.run()

    def run(self) -> None:
        plan = self.loop.plan()
        for order in plan.orders:
            if order.mode != "silent":
                self.loop.answered(self._answer(plan, order.client, order.correction_samples))
        corrections = np.array([order.correction_samples for order in plan.orders])
        offsets = corrections + BOUND * self.rng.standard_normal(self.clients)
        ones = np.ones(self.clients)
        self.loop.measured(
            Arrivals(plan.round, plan.kind, 8e5 * plan.round, offsets, BOUND * ones, 0 * ones, 0 * ones, 20 * ones)
        )

    def _answer(self, plan: Plan, client: int, correction: float) -> Answer:
        sent = "acquire" if plan.kind == "acquire" else "payload"
        return Answer(client, plan.round, 0, sent, correction, 8e5 * plan.round, 0.0, 20.0)


def speed(console: Console) -> None:
    loops = {clients: Rounds(clients) for clients in (5, 50)}
    seconds = median_seconds({str(clients): it.run for clients, it in loops.items()}, turns=25)
    table = Table(title="The loop: orders, answers and measurements of one round")
    for heading in ("clients", "ms a round", "of a round of 40 ms"):
        table.add_column(heading)
    for clients, time in seconds.items():
        table.add_row(clients, f"{1e3 * time:.2f}", f"{100 * time / SECONDS:.1f} %")
    console.print(table)


def main(console: Console) -> None:
    predictions(console)
    speed(console)
