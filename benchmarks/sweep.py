# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a sweep of small runs: side by side on two cores, one after the other, and as commands of their own.

All three take turns, so that a busy machine slows them alike. Small runs are the hardest case: what a run needs besides
its rounds (data, figures, report) counts most.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fl_app.config import load_settings
from fl_app.runs.sweep import sweep

RUNS = 30  # runs of a sweep
COMMANDS = 4  # runs by `fl_app train`, each in a new interpreter
TURNS = 3
JOBS = 2
AIM = 1.8
SMALL = [
    "run.rounds=6",
    "run.workers=0",
    "data.limit=300",
    "data.test_limit=100",
    "clients.H=2",
    "clients.batch_size=10",
]


def seconds_of_a_sweep(runs: int, jobs: int) -> float:
    """Return the seconds per run of a sweep, its table and figure included."""
    settings = load_settings(None, SMALL)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        result = sweep(settings, {"air.snr_db": [0, 20]}, range(runs // 2), Path(folder) / "sweep", jobs)
        seconds = time.perf_counter() - begin
    assert len(result.runs) == runs
    return seconds / runs


def seconds_of_commands(runs: int) -> float:
    """Return the seconds per run of `fl_app train`."""
    options = [f"--set={change}" for change in SMALL]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        for number in range(runs):
            command = [sys.executable, "-m", "fl_app", "train", *options, "--out", f"{folder}/{number}"]
            subprocess.run(command, check=True, capture_output=True)
        return (time.perf_counter() - begin) / runs


def main(console: Console, runs: int = RUNS, turns: int = TURNS) -> None:
    ways = {
        f"sweep, {JOBS} jobs": lambda: seconds_of_a_sweep(runs, JOBS),
        "sweep, 1 job": lambda: seconds_of_a_sweep(runs, 1),
        "fl_app train, one after the other": lambda: seconds_of_commands(COMMANDS),
    }
    every: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, measure in ways.items():
            every[name].append(measure())
    base = f"sweep, {JOBS} jobs"
    table = Table(title=f"A sweep of {runs} runs of 6 rounds, figures and report included")
    for heading in ("way", "s a run", f"times {base} (aim for one job: {AIM})"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name, seconds in every.items():
        ratio = statistics.median(own / least for own, least in zip(seconds, every[base], strict=True))
        table.add_row(name, f"{statistics.median(seconds):.2f}", f"{ratio:.2f}")
    console.print(table)
