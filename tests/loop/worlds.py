# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients made of numbers alone, to drive the loop: what each needs, whether it answers, what the server hears."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from oac_blocks.loop.closed_loop import Answer, Arrivals, Loop, Plan

SAMPLE_RATE_HZ = 20e6
TURNAROUND = 400_000.0
INTERVAL = 800_000.0  # samples from trigger to trigger
SIGMA = 0.01
PAYLOAD_PLACE = 37_000.0  # samples after the answer's first: the middle of a frame


@dataclass
class NumberClient:
    """Hears and answers as told; ``needed`` is the correction with which it would be exactly in time."""

    needed: float = 0.0
    answers: bool = True
    heard: bool = True
    epoch: int = 0
    ppm: float = 0.0
    power_db: float = 0.0
    snr_db: float = 20.0
    slot: float = 0.0  # where in an acquire round its sequence is, in samples after the answer's first
    bias: float = 0.0  # what payload needs more than the sequence, for reasons that nobody tells
    earliest: float = -math.inf  # below this correction it hears the trigger too late, and says so
    audible: float = math.inf  # offsets beyond it are not heard
    scatter: Callable[[], float] = lambda: 0.0


@dataclass
class World:
    clients: list[NumberClient]
    loop: Loop
    seed: int = 1
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.offsets: list[np.ndarray] = []  # true ones, NaN for a client that did not answer

    def round(self) -> Plan:
        plan = self.loop.plan()
        self.plans.append(plan)
        states = [view.state for view in self.loop.clients]
        n = len(self.clients)
        heard = np.full((6, n), np.nan)
        true = np.full(n, np.nan)
        trigger = plan.round * INTERVAL
        for order, client in zip(plan.orders, self.clients, strict=True):
            assert order.round == plan.round
            if order.mode == "payload" and self.loop.enabled:
                assert states[order.client] == "tracking"
            if order.mode == "silent" or not client.answers or order.epoch != client.epoch:
                continue
            sent = "acquire" if order.mode == "acquire" else "payload"
            if order.correction_samples < client.earliest:
                self.loop.abstained(order.client, plan.round, client.epoch, order.correction_samples)
                continue
            local = trigger * (1 + 1e-6 * client.ppm) + 12_345.0
            self.loop.answered(
                Answer(order.client, plan.round, client.epoch, sent, order.correction_samples, local, 0.0, 40.0)
            )
            needed = client.needed + (client.bias if order.mode == "payload" else 0.0)
            # At the answer's first sample it is off by this; a clock that is fast comes earlier along the answer.
            place = PAYLOAD_PLACE if order.mode == "payload" else client.slot
            along = 1e-6 * (order.drift_ppm - client.ppm) * place
            true[order.client] = order.correction_samples - needed + along
            if client.heard and abs(true[order.client]) <= client.audible:
                offset = true[order.client] + client.scatter() + SIGMA * self.rng.standard_normal()
                power_db = client.power_db + order.gain_db
                heard[:, order.client] = offset, SIGMA, power_db, 0.0, client.snr_db, place
        self.offsets.append(true)
        self.loop.measured(Arrivals(plan.round, plan.kind, trigger, *heard))
        return plan

    def run(self, rounds: int) -> list[Plan]:
        return [self.round() for _ in range(rounds)]

    def states(self) -> list[str]:
        return [view.state for view in self.loop.clients]
