# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the calibration tracker with the optimal filter and a fixed one, and the loop's time with a round's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from oac_blocks.dsp import Numerology, frame, fsk_mv, ofdm
from oac_blocks.dsp.receive import acquisition
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.waveform.answer import payload_answer, sequence_answer
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.loop.closed_loop import Answer, Arrivals, Loop, LoopSettings
from oac_blocks.loop.states import Plan, Sent
from oac_blocks.loop.tracker import Tracker

SECONDS = 0.04  # seconds from round to round
SETTINGS = LoopSettings(turnaround_samples=400_000.0)
BOUND = 0.01  # standard deviation of a measurement in samples
ROUNDS = 4000
# Standard deviations in samples: the clock's step from round to round, and the scatter of the measurements.
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
    """Feed the same kind of round to a loop over and over."""

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
        sent: Sent = "acquire" if plan.kind == "acquire" else "payload"
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


class Bursts:
    """Make what the server hears of 50 clients: sequences in an acquire round, frames in a payload round."""

    def __init__(self, clients: int = 50, votes: int = 21_880) -> None:
        rng = np.random.default_rng(1)
        self.layout = RoundLayout(Numerology(), clients)
        self.votes, self.frame = votes, self.layout.frame(votes)
        self.acquire_record = _noise(rng, acquisition.MARGIN_SAMPLES + acquisition.samples_needed(self.layout))
        self.burst = _noise(rng, self.frame.samples)
        for client in range(clients):
            turn = np.exp(2j * np.pi * rng.random())
            at = acquisition.MARGIN_SAMPLES + self.layout.sequence_start_samples(client) + int(rng.integers(-500, 500))
            sequence = sequence_answer(client, self.layout)
            self.acquire_record[at : at + len(sequence)] += turn * sequence
            ballots = rng.choice(np.array([-1, 1], np.int8), votes)
            self.burst += turn * payload_answer(ballots, client, self.layout, rng)

    def acquire(self) -> None:
        heard = acquisition.acquire(self.acquire_record, self.layout, float(acquisition.MARGIN_SAMPLES))
        if not np.isfinite(heard.offset_samples).all():
            raise RuntimeError("some clients were not heard")

    def track(self) -> None:
        syncs, starts = frame.syncs_of(self.burst, self.frame), self.frame.sync_starts_samples()
        estimate_burst(syncs, starts, self.layout.clients, self.layout.num, self.layout.num.cp_samples // 3)

    def decide(self) -> None:
        grid = ofdm.demodulate(frame.payload_of(self.burst, self.frame), self.layout.num)
        fsk_mv.detect(grid, self.votes, self.layout.num)


def _noise(rng: np.random.Generator, samples: int) -> np.ndarray:
    parts = rng.standard_normal((samples, 2), np.float32) * np.float32(np.sqrt(0.5 / 100))  # 20 dB
    return parts.view(np.complex64)[:, 0].copy()


def cost(console: Console) -> None:
    bursts = Bursts()
    names = {
        "a payload burst of 228 symbols, decided": (bursts.decide, bursts.frame.samples),
        "all offsets in its sync symbols": (bursts.track, bursts.frame.groups * bursts.layout.num.symbol_samples),
        "acquiring all anew, one round": (bursts.acquire, bursts.layout.acquisition_samples),
    }
    seconds = median_seconds({name: call for name, (call, _) in names.items()}, turns=7)
    payload_seconds, payload_samples = next(iter(seconds.values())), bursts.frame.samples
    table = Table(title="What calibrating 50 clients costs the server, beside the payload")
    for heading in ("", "ms", "of the payload's time", "samples on the air", "of the payload's"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, (_, samples) in names.items():
        time = seconds[name]
        ratios = f"{time / payload_seconds:.1f}", f"{samples:,}", f"{samples / payload_samples:.3f}"
        table.add_row(name, f"{1e3 * time:.1f}", *ratios)
    console.print(table)


def main(console: Console) -> None:
    predictions(console)
    speed(console)
    cost(console)
