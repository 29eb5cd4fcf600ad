# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a sweep of small runs: side by side on two cores, one after the other, and as commands of their own.

Small runs are the hardest case: what a run needs besides its rounds (data, figures, report) counts most. On a machine
that others use, two processes do not get twice the time of one. So the processor time of a run stands beside: if it is
the same with two jobs as with one, two free cores halve the time.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fl_app.config import load_settings
from fl_app.engine.runners import JobControl, JobEvent, SideBySide
from fl_app.runs.sweeps.plan import SweepRun, plan
from fl_app.runs.sweeps.sweep import play_run

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


def timed(run: SweepRun, control: JobControl) -> float:
    """Play a run, and return its processor time."""
    begin = time.process_time()
    play_run(run, control)
    return time.process_time() - begin


def sweep_seconds(runs: int, jobs: int) -> tuple[float, float]:
    """Return the time and the processor time of a run, in seconds, in a sweep of so many."""
    processor: list[float] = []

    def take(event: JobEvent) -> None:
        assert event.kind != "failed", event.content
        if event.kind == "done":
            processor.append(event.content)

    with tempfile.TemporaryDirectory() as folder:
        planned = plan(load_settings(None, SMALL), {"air.snr_db": [0, 20]}, range(runs // 2), Path(folder))
        begin = time.perf_counter()
        SideBySide(jobs).map(timed, planned, take, lambda: False)
        seconds = time.perf_counter() - begin
    return seconds / runs, statistics.fmean(processor)


def command_seconds(runs: int) -> tuple[float, float]:
    """Return the same of runs by `fl_app train`, each in a new interpreter."""
    options = [f"--set={change}" for change in SMALL]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        for number in range(runs):
            command = [sys.executable, "-m", "fl_app", "train", *options, "--out", f"{folder}/{number}"]
            subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds / runs, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / runs


def main(console: Console, runs: int = RUNS, turns: int = TURNS) -> None:
    side_by_side = f"sweep, {JOBS} jobs"
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        side_by_side: lambda: sweep_seconds(runs, JOBS),
        "sweep, 1 job": lambda: sweep_seconds(runs, 1),
        "fl_app train, one after the other": lambda: command_seconds(COMMANDS),
    }
    every: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(turns):  # in turns, so that a busy machine slows them alike
        for name, measure in ways.items():
            every[name].append(measure())
    table = Table(title=f"Runs of 6 rounds in a sweep of {runs}, figures and report included")
    headings = ("way", "time (s a run)", "processor (s a run)", f"time / {side_by_side} (aim for 1 job: {AIM})")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name, measured in every.items():
        seconds, processor = (statistics.median(values) for values in zip(*measured, strict=True))
        ratio = statistics.median(own[0] / base[0] for own, base in zip(measured, every[side_by_side], strict=True))
        table.add_row(name, f"{seconds:.2f}", f"{processor:.2f}", f"{ratio:.2f}")
    console.print(table)
