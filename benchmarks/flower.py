# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a round of Flower's simulation engine with clients that do not train, in its own environment.

The environment is made only on request (``make bench ARGS="flower"``): it takes 0.7 GB in the user's cache folder. It
runs ``flower_peer.py``, which uses no code of this project.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.environments import environment

REQUIREMENT = "flwr[simulation]==1.41.0"
ROUNDS = 14
LEFT_OUT = 3  # rounds left out: actors start, and the first rounds import what they need
TIMEOUT_SECONDS = 600
# Two engines, and three shares of a core for each client: two, four and twenty clients at a time on two cores.
ENGINES = ("messages", "legacy")
CPUS_PER_CLIENT = (1.0, 0.5, 0.1)


@dataclass(frozen=True)
class Measured:
    seconds: float  # median time of a round
    engine: str
    cpus_per_client: float


def measure(n_clients: int, entries: int, console: Console) -> Measured:
    """Return the best of all settings for clients that each receive and return one float32 array of ``entries``."""
    every = []
    for engine in ENGINES:
        for cpus in CPUS_PER_CLIENT:
            seconds = seconds_of(engine, n_clients, cpus, entries)
            every.append(Measured(statistics.median(seconds), engine, cpus))
            spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
            console.print(f"Flower, N = {n_clients}, {engine}, num_cpus {cpus}: {every[-1].seconds:.3f} s ({spread})")
    return min(every, key=lambda one: one.seconds)


def seconds_of(engine: str, n_clients: int, cpus_per_client: float, entries: int) -> list[float]:
    """Return the seconds of each round after the first ones."""
    python, peer = environment("flower", [REQUIREMENT]) / "bin" / "python", Path(__file__).with_name("flower_peer.py")
    # The path must be short, as sockets lie below it. Ray's helpers may still write when the run is over.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        arguments = [engine, str(n_clients), str(cpus_per_client), str(entries), str(ROUNDS), folder]
        run = subprocess.run([python, peer, *arguments], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if run.returncode != 0:
        raise RuntimeError(f"Flower failed with {' '.join(arguments)}:\n{run.stderr[-2000:]}")
    seconds: list[float] = json.loads(run.stdout.splitlines()[-1])
    return seconds[LEFT_OUT:]
