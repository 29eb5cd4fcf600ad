# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how a round's cost grows: processor time and memory against d, k and N, each with its slope in log-log axes.

A slope of 1 is linear growth. Memory is what a step allocates on top of what was there before it, its result included.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.record.machine import describe
from benchmarks.scale.selection import RESNET, RHO, Rounds
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.waveform import WaveformAir

SIZES = (1_100_000, 3_500_000, RESNET, 35_000_000, 100_000_000)  # all above the size from which on loops are compiled
SHARES = (0.01, 0.03, 0.1, 0.3)
CLIENTS = (2, 5, 10, 20, 50)
ENTRIES = (2_200, 7_000, 22_000, 70_000)
VOTES = 21_880  # votes of a client, where the uplink is measured against N
FEW = 10  # clients of the uplink against k
TURNS = 5


@dataclass(frozen=True)
class Point:
    """Hold the cost at one size."""

    size: int
    cpu_seconds: float
    extra_bytes: int


@dataclass(frozen=True)
class Curve:
    """Hold the cost of some work against its size."""

    work: str
    against: str
    points: tuple[Point, ...]

    def slope(self, figure: str) -> float:
        """Return the slope of a straight line through the points in log-log axes, by least squares."""
        sizes = [point.size for point in self.points]
        values = [getattr(point, figure) for point in self.points]
        return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def measured(size: int, call: Callable[[], object], go_on: Callable[[], object] = lambda: None) -> Point:
    """Return the least processor time of some turns, since others only add to it, and the memory of one more."""
    call()
    go_on()
    seconds = []
    for _ in range(TURNS):
        begin = time.process_time()
        call()
        seconds.append(time.process_time() - begin)
        go_on()
    tracemalloc.start()
    try:
        call()
        extra = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Point(size, min(seconds), extra)


def selection(d: int, rho: float, size: int) -> Point:
    rounds = Rounds(d, rho)
    return measured(size, rounds.ours, rounds.go_on)


def uplink(clients: int, votes: int, size: int) -> Point:
    settings = AirSettings()
    rng = np.random.default_rng(1)
    payload = np.stack([settings.scheme.random_payload(votes, rng) for _ in range(clients)])
    air = WaveformAir(settings, clients, 1)
    return measured(size, lambda: air.uplink(payload, np.arange(clients), 0))


def curves(
    sizes: Iterable[int] = SIZES,
    shares: Iterable[float] = SHARES,
    clients: Iterable[int] = CLIENTS,
    entries: Iterable[int] = ENTRIES,
    d: int = RESNET,
) -> list[Curve]:
    """Measure all curves; d is the size of the model whose k grows."""
    return [
        Curve(f"FAIR-k, k = {RHO:.0%} of d", "d", tuple(selection(size, RHO, size) for size in sizes)),
        Curve(f"FAIR-k, d = {d:,}", "k", tuple(selection(d, rho, round(rho * d)) for rho in shares)),
        Curve(f"waveform uplink, k = {VOTES:,}", "N", tuple(uplink(n, VOTES, n) for n in clients)),
        Curve(f"waveform uplink, N = {FEW}", "k", tuple(uplink(FEW, k, k) for k in entries)),
    ]


def save(found: list[Curve], file: Path) -> None:
    """Write the curves, with the machine, as JSON: benchmarks/scale/figures.py draws them."""
    content = {"machine": describe(), "curves": [asdict(curve) for curve in found]}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(file: Path) -> list[Curve]:
    """Return the curves of a file that `save` wrote."""
    return [
        Curve(one["work"], one["against"], tuple(Point(**point) for point in one["points"]))
        for one in json.loads(file.read_text(encoding="utf-8"))["curves"]
    ]


def main(console: Console) -> None:
    table = Table(title="How the cost grows; a slope of 1 in log-log axes is linear")
    headings = ("work", "from", "to", "CPU ms from", "CPU ms to", "slope of time", "MB to", "slope of memory")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "work" else "right")
    for curve in curves():
        first, last = curve.points[0], curve.points[-1]
        ends = (f"{curve.against} = {point.size:,}" for point in (first, last))
        times = (f"{1e3 * point.cpu_seconds:.1f}" for point in (first, last))
        memory = f"{last.extra_bytes / 1e6:.1f}", f"{curve.slope('extra_bytes'):.2f}"
        table.add_row(
            f"{curve.work}, against {curve.against}", *ends, *times, f"{curve.slope('cpu_seconds'):.2f}", *memory
        )
    console.print(table)
