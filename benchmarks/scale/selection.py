# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare FAIR-k with torch.topk twice, and a model of 100 million entries with linear growth.

One thread each: torch.topk on a vector and our kernels both use one. Wall time is what a user waits for; processor time
stands beside, since other programs hardly change it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from fl_app.core.ages import Ages
from fl_app.core.selection import make_policy

RESNET, LARGE = 11_173_962, 100_000_000  # entries
RHO, MAGNITUDE_SHARE = 0.1, 0.75
WARM_UP, ROUNDS = 2, 9
AIM, LIMIT = 20, 1.15

Seconds = tuple[float, float]  # wall and processor time


class Rounds:
    """Play FAIR-k's rounds on a random gradient memory, of which the selected entries are new in each round."""

    def __init__(self, d: int, rho: float = RHO) -> None:
        self.k = round(rho * d)
        self.k_m = round(MAGNITUDE_SHARE * self.k)
        self.rng = np.random.default_rng(0)
        self.g = self.rng.standard_normal(d, np.float32)
        self.ages = Ages.zeros(d)
        self.policy = make_policy("fair-k", d, self.k, self.k_m, rng=np.random.default_rng(1))
        self.selected = np.arange(d)

    def ours(self) -> None:
        self.selected = self.policy.pick(self.g, self.ages)

    def on_arrays(self, age: np.ndarray) -> None:
        make_policy("fair-k", self.g.size, self.k, self.k_m).next(self.g, age)

    def naive(self, age: torch.Tensor) -> None:
        """Select by torch.topk twice; `age` is its own copy."""
        top = torch.topk(torch.from_numpy(self.g).abs(), self.k_m, sorted=False).indices
        age[top] = -1
        torch.topk(age, self.k - self.k_m, sorted=False)

    def go_on(self) -> None:
        self.ages.update(self.selected)
        self.g[self.selected] = self.rng.standard_normal(self.selected.size, np.float32)


def play(rounds: Rounds, turns: Mapping[str, Callable[[], Callable[[], None]]]) -> dict[str, Seconds]:
    """Return the median times of each call over the rounds; each turn first prepares, untimed, and returns the call."""
    taken: dict[str, list[Seconds]] = {name: [] for name in turns}
    for number in range(WARM_UP + ROUNDS):
        for name, prepare in turns.items():
            call = prepare()
            wall, processor = time.perf_counter(), time.process_time()
            call()
            if number >= WARM_UP:
                taken[name].append((time.perf_counter() - wall, time.process_time() - processor))
        rounds.go_on()
    return {
        name: (statistics.median(wall for wall, _ in own), statistics.median(cpu for _, cpu in own))
        for name, own in taken.items()
    }


def against_topk() -> dict[str, Seconds]:
    """Return the median times of the three ways at the size of ResNet-18."""
    rounds = Rounds(RESNET)

    def ours() -> Callable[[], None]:
        return rounds.ours

    def on_arrays() -> Callable[[], None]:
        age = rounds.ages.array()
        return lambda: rounds.on_arrays(age)

    def naive() -> Callable[[], None]:
        age = torch.from_numpy(rounds.ages.array())
        return lambda: rounds.naive(age)

    return play(rounds, {"ours": ours, "next(g, age)": on_arrays, "torch.topk twice": naive})


def ours_alone(d: int, rho: float = RHO) -> Seconds:
    rounds = Rounds(d, rho)
    return play(rounds, {"ours": lambda: rounds.ours})["ours"]


def main(console: Console) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = against_topk()
    finally:
        torch.set_num_threads(threads)
    table = Table(title=f"FAIR-k, d = {RESNET:,}, rho = {RHO:.0%}, one thread; aim: {AIM} times faster")
    for heading in ("way", "ms", "CPU ms", "faster than torch.topk twice", "faster, CPU time"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    wall, processor = seconds["torch.topk twice"]
    for name, (own_wall, own_cpu) in seconds.items():
        ratios = f"{wall / own_wall:.1f} x", f"{processor / own_cpu:.1f} x"
        table.add_row(name, f"{1e3 * own_wall:.1f}", f"{1e3 * own_cpu:.1f}", *ratios)
    console.print(table)

    table = Table(title=f"FAIR-k against linear growth from d = {RESNET:,}; limit: {LIMIT}")
    for heading in ("d", "ms", "CPU ms", "over linear growth", "over, CPU time"):
        table.add_column(heading, justify="right")
    small = ours_alone(RESNET)
    for d in (RESNET, LARGE):
        own = small if d == RESNET else ours_alone(d)
        growth = [mine / base * RESNET / d for mine, base in zip(own, small, strict=True)]
        table.add_row(f"{d:,}", *(f"{1e3 * one:.1f}" for one in own), *(f"{ratio:.2f}" for ratio in growth))
    console.print(table)
