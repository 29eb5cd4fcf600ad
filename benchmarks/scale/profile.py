# SPDX-License-Identifier: GPL-3.0-or-later
"""Say where the time of a whole round goes, and compare the round with its bare local steps in plain torch.

All is computed in one process with one thread, in processor time, so that other programs hardly change it. The bare
steps are those of a torch tutorial: the same model, batches and rate, with torch's own SGD.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.scale.spans import Spans
from fl_app.config import Settings, load_settings
from fl_app.data.data import Data
from fl_app.runs.prepare import Objects
from fl_app.runs.run import Run

AIM = 1.10
ROUNDS = 9  # after round 0, which sends all entries
PARTS = ("train", "uplink", "update", "select")
COMMON = ("run.workers=0", "run.eval_every=1000", "data.partition=iid", "clients.H=5", "clients.batch_size=50")


@dataclass(frozen=True)
class Case:
    """Describe the setting of a round."""

    name: str
    config: str
    changes: tuple[str, ...]
    shape: tuple[int, ...]
    classes: int
    rounds: int = ROUNDS

    def settings(self) -> Settings:
        return load_settings(self.config, [*COMMON, *self.changes])

    def data(self) -> Data:
        """Return noise as images: what they show does not change the time."""
        rng, n = np.random.default_rng(1), 100 * self.settings().clients.n
        labels = np.arange(n) % self.classes
        images = rng.random((n, *self.shape), np.float32)
        return Data((images, labels), (images[:100], labels[:100]), name="noise")


CASES = (
    Case("CNN, N = 10, votes, waveform", "quickstart", ("clients.n=10",), (1, 28, 28), 26),
    Case(
        "ResNet-18, N = 2, H = 1, analog, fading",
        "cifar10-noniid",
        ("clients.n=2", "clients.H=1"),
        (3, 32, 32),
        10,
        rounds=4,
    ),
)


def bare_seconds(run: Run) -> float:
    """Return the processor time of the local steps of all clients of a round, in plain torch."""
    settings, local = run.settings, run.prepared.local
    model = local.model.build()
    model.train()
    begin = time.process_time()
    for client in range(settings.clients.n):
        samples, rng = run.prepared.data_of(client), np.random.default_rng(client)
        optimizer = torch.optim.SGD(model.parameters(), lr=settings.clients.lr)
        for indices in local.batches(len(samples), rng):
            inputs, targets = samples.batch(indices, rng)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    return time.process_time() - begin


def profile(case: Case) -> dict[str, float]:
    """Return the least processor seconds of a round, those of its parts, and the least of the bare steps.

    Rounds and bare steps take turns. The least counts, as other programs only add to it.
    """
    run = Run(case.settings(), Objects(data=case.data()))
    spans, rows, bare = Spans(), [], []
    with run.playing() as training:
        play_round = spans.of_rounds(training)
        for _ in range(1 + case.rounds):
            play_round(evaluate=False)
            rows.append({name: span["cpu_seconds"] for name, span in spans.take().items()})
            bare.append(bare_seconds(run))
    found = min(rows[1:], key=lambda row: row["round"])
    found["update"] -= found["select"]
    found["rest"] = found["round"] - sum(found[name] for name in PARTS)
    return {**found, "bare": min(bare[1:])}


def main(console: Console) -> None:
    threads = torch.get_num_threads()
    table = Table(title=f"Where a round's time goes, CPU ms; aim for the round: {AIM:.2f} times the bare torch steps")
    parts = (*PARTS, "rest", "round", "bare")
    for heading in ("setting", *parts, "round / bare"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    try:
        for case in CASES:
            found = profile(case)
            row = (f"{1e3 * found[name]:.1f}" for name in parts)
            table.add_row(case.name, *row, f"{found['round'] / found['bare']:.2f}")
    finally:
        torch.set_num_threads(threads)
    console.print(table)
