# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how long a user waits: `fl_app --help`, and `fl_app train` from the command to the first finished round.

Processor time is that of the command and of all processes that it started, at this moment. It is the wait on as many
free cores as it can use, or more.
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

TURNS = 5
LOOK_SECONDS = 0.01
AIMS = {"fl_app --help": 0.4, "fl_app train, first round": 4.0}
_TICKS = os.sysconf("SC_CLK_TCK")


def help_seconds() -> tuple[float, float]:
    """Return wall and processor time of `fl_app --help`."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "fl_app", "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_round_seconds() -> tuple[float, float]:
    """Return wall and processor time of `fl_app train` until its first round is written; then the run is stopped."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fl_app", "train", "quickstart", "--out", f"{folder}/run"]
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        metrics = Path(folder, "run", "metrics.jsonl")
        while not metrics.exists() or not metrics.stat().st_size:
            if process.poll() is not None:
                assert process.stderr is not None
                raise RuntimeError(f"fl_app train ended early:\n{process.stderr.read().decode()[-2000:]}")
            time.sleep(LOOK_SECONDS)
        seconds, processor = time.perf_counter() - begin, session_cpu_seconds(process.pid)
        process.send_signal(signal.SIGINT)  # it finishes its round and closes its workers
        process.communicate()
    return seconds, processor


def session_cpu_seconds(session: int) -> float:
    """Return the processor time so far of the processes of a session that are there, and of those that they awaited."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def main(console: Console) -> None:
    first_round_seconds()  # fills the data set's cache
    measured = {
        "fl_app --help": [help_seconds() for _ in range(TURNS)],
        "fl_app train, first round": [first_round_seconds() for _ in range(TURNS)],
    }
    table = Table(title="Start of the commands")
    for heading in ("command", "s (median)", "s (least)", "CPU s (least)", "aim (s)"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    for name, turns in measured.items():
        walls, processors = zip(*turns, strict=True)
        times = statistics.median(walls), min(walls), min(processors)
        table.add_row(name, *(f"{value:.2f}" for value in times), f"{AIMS[name]:.1f}")
    console.print(table)
