# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the simulated air's share of a training round: ten clients, k = 21,880, two worker processes."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fl_app.config import load_settings
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train

ROUNDS = 8  # the first round sends all d entries and is left out
AIM = 0.15


def rounds_of(profile: str) -> list[RoundFigures]:
    settings = load_settings(
        None,
        [
            "clients.n=10",
            f"run.rounds={ROUNDS}",
            "run.eval_every=1000",
            f"air.profile={profile}",
            "data.test_limit=100",
        ],
    )
    rows: list[RoundFigures] = []
    with tempfile.TemporaryDirectory() as folder:
        train(settings, RunFolder.create(settings, Path(folder) / "run"), rows.append, lambda: False)
    return rows[1:]


def main(console: Console) -> None:
    table = Table(title="The waveform's share of a round, N = 10, k = 21,880, the CNN, H = 5, B = 50, 2 workers")
    for heading in ("channel", "training (s a round)", "air (s a round)", f"air / training (aim: {AIM:.0%})"):
        table.add_column(heading, justify="left" if heading == "channel" else "right")
    for profile in ("flat", "eva"):
        rows = rounds_of(profile)
        training = statistics.median(row.train_seconds for row in rows)
        air = statistics.median(row.air_cpu_seconds for row in rows)
        table.add_row(profile, f"{training:.2f}", f"{air:.3f}", f"{air / training:.1%}")
    console.print(table)
