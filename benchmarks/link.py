# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a round over the link without training: model change down, votes up, the air and the update."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import flower
from fl_app.config import load_settings
from fl_app.link.router import RouterLink
from fl_app.link.server import serve
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder

ROUNDS = 14
LEFT_OUT = 2  # rounds left out: round 0 sends all d entries, and in round 1 clients get the signs of all of them
CROWDS = 2  # number of processes that hold the clients
ENTRIES = 109_402  # number of parameters of the CNN
# Seconds per round of Flower's simulation engine with clients that do not train, seen on another machine.
SEEN_ELSEWHERE_SECONDS = {10: 0.38, 50: 1.5}


def rounds_of(n_clients: int, air: str) -> tuple[list[RoundFigures], float]:
    """Return the later rounds of a short one-bit run of the CNN (k = 21,880), with clients in their own processes.

    The second value is the processor time of this process per round.
    """
    changes = {
        "clients.n": n_clients,
        "run.rounds": ROUNDS,
        "run.eval_every": 1000,
        "run.checkpoint_every": 1000,
        "data.limit": 500,
        "data.test_limit": 100,
        "air.name": air,
    }
    settings = load_settings(None, [f"{key}={value}" for key, value in changes.items()])
    rows: list[RoundFigures] = []
    clock: list[float] = []

    def on_round(row: RoundFigures) -> None:
        rows.append(row)
        clock.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        endpoint = f"ipc://{folder}/server"
        link = RouterLink(endpoint, None, lambda _text: None)
        crowds = [_crowd(endpoint, range(first, n_clients, CROWDS)) for first in range(CROWDS)]
        try:
            serve(settings, RunFolder.create(settings, Path(folder) / "run"), on_round, lambda: False, link)
        finally:
            link.close()
            for crowd in crowds:
                crowd.kill()
                crowd.wait()
    # The last round evaluates the test set as well.
    return rows[LEFT_OUT:-1], (clock[-2] - clock[LEFT_OUT - 1]) / (len(rows) - LEFT_OUT - 1)


def _crowd(endpoint: str, numbers: range) -> subprocess.Popen[bytes]:
    code = f"from fl_app.link.crowd import run_crowd; run_crowd({endpoint!r}, {list(numbers)})"
    return subprocess.Popen([sys.executable, "-c", code])


def main(console: Console, with_flower: bool = False) -> None:
    """Print the table; with ``with_flower`` measure Flower in the same run, otherwise print no ratio to it."""
    table = Table(title="A round over the link without training: the CNN, k = 21,880 votes from each client")
    headings = ("N", "air", "round (s)", "server's CPU (s)", "air's CPU (s)", "down to each (kB)", "w_t whole (kB)")
    for heading in (*headings, "ratio", "Flower's simulation, its best setting, no radio (s)"):
        table.add_column(heading, justify="right")
    for n_clients, elsewhere in SEEN_ELSEWHERE_SECONDS.items():
        measured = flower.measure(n_clients, ENTRIES, console) if with_flower else None
        for air in ("ideal", "waveform"):
            rows, cpu_seconds = rounds_of(n_clients, air)
            seconds = statistics.median(row.seconds for row in rows)
            in_air = statistics.median(row.air_cpu_seconds for row in rows)
            down = statistics.median(row.downlink_bytes or 0 for row in rows)
            whole = 4 * ENTRIES
            peer = f"not measured (seen elsewhere: {elsewhere})"
            if measured is not None:
                peer = f"{measured.seconds:.3f} ({measured.seconds / seconds:.1f}x)"
            table.add_row(
                str(n_clients),
                air,
                f"{seconds:.3f}",
                f"{cpu_seconds:.3f}",
                f"{in_air:.3f}",
                f"{down / 1000:.1f}",
                f"{whole / 1000:.1f}",
                f"{whole / down:.1f}",
                peer,
            )
    console.print(table)
