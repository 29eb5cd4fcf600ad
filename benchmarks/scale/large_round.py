# SPDX-License-Identifier: GPL-3.0-or-later
"""Play whole rounds of a model with 100 million parameters: time and resident memory of each step.

The rounds are played in a process of its own, whose peak the kernel counts (VmHWM): two clients and their model, the
one-bit frame on the simulated waveform, the server, FAIR-k with rho = 10 %, and a checkpoint. Round 0 sends all
entries, so it is the largest; round 1 is one of those that follow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.scale.spans import Spans
from fl_app.config import Settings, load_settings
from fl_app.data.data import Data
from fl_app.runs.checkpoints import save_checkpoint
from fl_app.runs.prepare import Objects
from fl_app.runs.run import Run

SIDE = 10_000  # a linear layer of SIDE times SIDE weights, d = 100 million, with next to no work
CLIENTS = 2
LIMIT_BYTES = 8 * 2**30


def settings_of(clients: int) -> Settings:
    """Return the settings of the rounds: one local step on one sample, so that next to nothing is training."""
    return load_settings(
        None,
        [
            f"clients.n={clients}",
            "clients.H=1",
            "clients.batch_size=1",
            "run.workers=0",
            "selection.rho=0.1",
            "data.partition=iid",
        ],
    )


def objects_of(side: int, clients: int) -> Objects:
    """Return a linear layer with its data: one sample for each client, and one to test."""
    rng = np.random.default_rng(side)
    images = rng.normal(size=(clients, 1, 1, side)).astype(np.float32)
    labels = rng.integers(0, side, clients)
    data = Data((images, labels), (images[:1], labels[:1]), name="noise")
    return Objects(model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(side, side, bias=False)), data=data)


def play(side: int, clients: int = CLIENTS, rounds: int = 2) -> dict[str, dict[str, dict[str, float]]]:
    """Play the rounds in this process, and return what each step took: by round, then by step."""
    torch.set_num_threads(1)
    spans = Spans()
    taken: dict[str, Any] = {}
    run = spans.measured("preparation", Run)(settings_of(clients), objects_of(side, clients))
    with run.playing() as training:
        play_round = spans.of_rounds(training)
        for number in range(rounds):
            play_round(evaluate=False)
            taken[f"round {number}"] = spans.take()
        with tempfile.TemporaryDirectory() as folder:
            spans.measured("checkpoint", lambda: save_checkpoint(Path(folder), training.checkpoint("")))()
        taken["checkpoint"] = spans.take()
    return taken


def measure(side: int) -> dict[str, dict[str, dict[str, float]]]:
    """Play the rounds in a process of its own."""
    run = subprocess.run([sys.executable, "-m", __name__, str(side)], capture_output=True, text=True, check=True)
    measured: dict[str, dict[str, dict[str, float]]] = json.loads(run.stdout.splitlines()[-1])
    return measured


def main(console: Console) -> None:
    measured = measure(SIDE)
    table = Table(title=f"Whole rounds, d = {SIDE**2:,}, N = {CLIENTS}; limit: {LIMIT_BYTES / 2**30:.0f} GiB resident")
    for heading in ("step", "s", "CPU s", "peak (GiB)"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    for when, steps in measured.items():
        for name, span in steps.items():
            times = (f"{span[key]:.2f}" for key in ("seconds", "cpu_seconds"))
            table.add_row(f"{when}: {name}", *times, f"{span['peak_bytes'] / 2**30:.2f}")
    console.print(table)


if __name__ == "__main__":
    print(json.dumps(play(int(sys.argv[1]))))
