# SPDX-License-Identifier: GPL-3.0-or-later
"""Which faults are injected, where and in which order: a pure function of the seed.

A soak is a sequence of visits. A visit starts one bench, injects some faults one after the other, and takes the bench
down. Scenarios and faults are dealt like cards: each is used once before any is used again, in an order that the seed
decides. So visit 17 of seed 3 is always the same, and can be repeated alone.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

FAULTS_IN_A_VISIT = 4
ROUNDS_BETWEEN_FAULTS = (3, 8)  # so many rounds of training between the end of a fault and the next one
FREEZE_SECONDS = (0.5, 8.0)
UNPLUG_SECONDS = (1.0, 10.0)
LOSS_SECONDS = (2.0, 8.0)
LOSS_SHARES = (0.1, 0.4)  # of the messages, in both directions

CLIENTS = ("client-0", "client-1")
FLOWGRAPHS = ("flowgraph-server", "flowgraph-0", "flowgraph-1")


@dataclass(frozen=True)
class Fault:
    """One fault. What `target` and `amount` mean depends on `kind`."""

    kind: str  # kill, freeze, unplug, gap, lose or fill
    target: str  # a process, a radio, the link or the disk
    after_rounds: int  # rounds of training between the end of the fault before and this one
    seconds: float = 0.0  # how long a fault lasts that has a duration
    amount: float = 0.0  # of "lose": the share of the messages that are lost

    def __str__(self) -> str:
        length = f" for {self.seconds:.1f} s" if self.seconds else ""
        share = f" {100 * self.amount:.0f} % of" if self.amount else ""
        return f"{self.kind}{share} {self.target}{length}"


@dataclass(frozen=True)
class Visit:
    """One bench and its faults."""

    number: int
    scenario: str
    variant: str  # which air, or which clock
    faults: tuple[Fault, ...]


def _each(kind: str, *targets: str) -> tuple[tuple[str, str], ...]:
    return tuple((kind, target) for target in targets)


# The faults of each scenario. A fault that stands twice is dealt twice as often.
MENUS: dict[str, tuple[tuple[str, str], ...]] = {
    "up-gnuradio": (
        *_each("kill", *CLIENTS, "server", "radio", "flowgraph", "flowgraph", "up"),
        *_each("freeze", *CLIENTS, "server", "radio", "flowgraph", "up"),
        *_each("fill", "disk"),
    ),
    "up-exact": (
        *_each("kill", *CLIENTS, "server", "up"),
        *_each("freeze", *CLIENTS, "server", "up"),
        *_each("fill", "disk"),
    ),
    "link-exact": (
        *_each("kill", *CLIENTS, "server", "server"),
        *_each("freeze", *CLIENTS, "server"),
        *_each("lose", "link", "link", "link"),
        *_each("fill", "disk"),
    ),
    "train-pluto": (
        *_each("kill", "train", "plutos"),
        *_each("freeze", "train", "plutos"),
        *_each("unplug", "radio-0", "radio-1", "radio-1", "radio-2", "radio-2"),
        *_each("gap", "radio-1", "radio-2"),
        *_each("fill", "disk"),
    ),
    "bench-pluto": (
        *_each("kill", *CLIENTS, "server", *FLOWGRAPHS, "radio-command-0", "plutos"),
        *_each("freeze", *CLIENTS, "server", *FLOWGRAPHS, "plutos"),
        *_each("unplug", "radio-0", "radio-1", "radio-2"),
        *_each("gap", "radio-1", "radio-2"),
        *_each("lose", "link"),
    ),
}
VARIANTS = {
    "up-gnuradio": ("gnuradio",),
    "up-exact": ("ideal", "fading", "waveform"),
    "link-exact": ("ideal", "fading", "waveform"),
    "train-pluto": ("lock-step",),
    "bench-pluto": ("lock-step",),
}


def visits(seed: int, scenarios: tuple[str, ...] = tuple(MENUS)) -> Iterator[Visit]:
    """Yield the visits of this seed, without an end.

    Parameters
    ----------
    seed
        The same seed gives the same visits.
    scenarios
        The names of the scenarios that are visited.
    """
    rng = random.Random(seed)
    order = _dealt(scenarios, rng)
    faults = {name: _dealt(MENUS[name], rng) for name in scenarios}
    variants = {name: _dealt(VARIANTS[name], rng) for name in scenarios}
    for number in itertools.count():
        name = next(order)
        chosen = tuple(_fault(next(faults[name]), rng) for _ in range(FAULTS_IN_A_VISIT))
        yield Visit(number, name, next(variants[name]), chosen)


def _dealt(cards: tuple, rng: random.Random) -> Iterator:
    """Yield the cards in random order, all of them before one comes again."""
    while True:
        yield from rng.sample(cards, len(cards))


def _fault(card: tuple[str, str], rng: random.Random) -> Fault:
    kind, target = card
    rounds = rng.randint(*ROUNDS_BETWEEN_FAULTS)
    if kind == "freeze":
        return Fault(kind, target, rounds, seconds=round(rng.uniform(*FREEZE_SECONDS), 1))
    if kind == "unplug":
        return Fault(kind, target, rounds, seconds=round(rng.uniform(*UNPLUG_SECONDS), 1))
    if kind == "lose":
        seconds, share = rng.uniform(*LOSS_SECONDS), rng.uniform(*LOSS_SHARES)
        return Fault(kind, target, rounds, seconds=round(seconds, 1), amount=round(share, 2))
    return Fault(kind, target, rounds)
