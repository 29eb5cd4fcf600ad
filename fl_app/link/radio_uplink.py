# SPDX-License-Identifier: GPL-3.0-or-later
"""A training round's votes through the clients' own radios: when these call for votes, clients hand them over.

Rounds of the radios are not rounds of the training: they go on by themselves, and a long payload takes several. A round
that came too early for somebody is no loss, since the next one carries the same votes; each entry is decided once.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fl_app.air.base import Uplink
from fl_app.air.live.flow_bursts import uplink_in_bursts
from fl_app.air.live.flow_messages import Decision
from fl_app.air.settings import AirSettings
from fl_app.link.radio_bench import RadioBench
from oac_blocks.bench.flows.calls import Call

PARTIAL_ROUNDS = 3  # of the radios, until one that lacks somebody's votes does
SILENT_SECONDS = 60.0  # until the flowgraph is taken for dead
FRUITLESS_SECONDS = 30.0  # until a flowgraph that lives and brings too few votes is given up
OVERTAKEN_SECONDS = 0.5  # that a decision may come behind the next call: they are on two sockets


class RadioError(RuntimeError):
    """Nothing is heard of the radios; the message says what is known of them."""


class TooFewVotersError(RadioError):
    """The radios live, and bring the votes of too few clients."""


class RadioUplink:
    """tell: has these clients hand over a part of their payload of round t; listen: lets messages in, the bench's too,
    for a moment; it is told for how many seconds no round has been decided."""

    def __init__(
        self,
        bench: RadioBench,
        min_clients: int,
        tell: Callable[[Collection[int], int, Mapping[str, int]], None],
        listen: Callable[[float], None],
    ) -> None:
        self._bench, self._min_clients, self._tell, self._listen = bench, min_clients, tell, listen
        self._started = 0.0  # the burst at hand

    def collect(self, clients: Collection[int], t: int, k: int, settings: AirSettings) -> tuple[Uplink, int]:
        """The k votes of these clients in round t; with them, how many clients were in every burst."""
        voters = []

        def send(first: int, stop: int) -> tuple[NDArray[np.float32], float]:
            decision = self._burst(t, clients, first, stop)
            voters.append(decision.voters)
            return decision.soft_votes, decision.snr_db

        uplink = uplink_in_bursts(k, settings, send)
        # The radios' rate is their own affair, and need not stand in the run's config.
        rate_hz = self._bench.sample_rate_hz or settings.sample_rate_hz
        air_seconds = uplink.air_seconds * settings.sample_rate_hz / rate_hz
        return dataclasses.replace(uplink, air_seconds=air_seconds), min(voters)

    def _burst(self, t: int, clients: Collection[int], first: int, stop: int) -> Decision:
        self._started, partial = time.monotonic(), 0
        needed = min(self._min_clients, len(clients))
        while True:
            call = self._await_call()
            self._bench.announce(call, stop - first, clients)
            self._tell(clients, t, {"radio_round": call.round, "run": call.run, "first": first, "stop": stop})
            decision = self._await_decision(call)
            self._refuse_a_fault()
            if decision is None or decision.soft_votes.size != stop - first or decision.voters < max(1, needed):
                continue
            if decision.voters >= self._bench.able(clients) or partial == PARTIAL_ROUNDS:
                return decision
            partial += 1

    def _await_call(self) -> Call:
        """A round that the radios want votes for, while there is time to bring them."""
        while (call := self._bench.fresh_call()) is None:
            self._wait()
        return call

    def _await_decision(self, call: Call) -> Decision | None:
        """What became of a round; None if another is called for and nothing did."""
        overtaken = float("inf")
        while (decision := self._bench.decision_of(call)) is None:
            if self._bench.last_call != call:
                overtaken = min(overtaken, time.monotonic())
            if time.monotonic() - overtaken > OVERTAKEN_SECONDS:
                return None
            self._wait()
        return decision

    def _wait(self) -> None:
        """For a moment."""
        now = time.monotonic()
        self._refuse_a_fault()
        if now - max(self._started, self._bench.heard) > SILENT_SECONDS:
            raise RadioError(self._bench.complaint(SILENT_SECONDS))
        if now - self._started > FRUITLESS_SECONDS and now - self._bench.heard < FRUITLESS_SECONDS:
            raise TooFewVotersError(self._bench.complaint(FRUITLESS_SECONDS))
        self._listen(now - max(self._started, self._bench.decided))

    def _refuse_a_fault(self) -> None:
        if self._bench.fault:
            raise RadioError(self._bench.fault)
