# SPDX-License-Identifier: GPL-3.0-or-later
"""A training round's votes through the clients' own radios: when these call for votes, clients hand them over.

Rounds of the radios are not rounds of the training: they go on by themselves, and a long payload takes several. A round
that came too early for somebody is no loss, since the next one carries the same votes; each entry is decided once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fl_app.air.base import Uplink
from fl_app.air.flow_bursts import uplink_in_bursts
from fl_app.air.flow_messages import Call, Decision
from fl_app.air.settings import AirSettings
from fl_app.link.radio_bench import RadioBench

PARTIAL_ROUNDS = 3  # of the radios, until one that lacks somebody's votes does
SILENT_SECONDS = 60.0  # until the flowgraph is taken for dead
FRUITLESS_SECONDS = 180.0  # until a flowgraph that brings nobody's votes is given up


class RadioError(RuntimeError):
    """No votes come from the radios; the message says what is known of them."""


class RadioUplink:
    """tell: has these clients hand over a part of their payload of round t; listen: lets messages in, the bench's too,
    for a moment; it is told for how many seconds the flowgraph has been silent."""

    def __init__(
        self,
        bench: RadioBench,
        min_clients: int,
        tell: Callable[[Collection[int], int, Mapping[str, int]], None],
        listen: Callable[[float], None],
    ) -> None:
        self._bench, self._min_clients, self._tell, self._listen = bench, min_clients, tell, listen

    def collect(self, clients: Collection[int], t: int, k: int, settings: AirSettings) -> tuple[Uplink, int]:
        """The k votes of these clients in round t; with them, how many clients were in every burst."""
        voters = []

        def send(first: int, stop: int) -> tuple[NDArray[np.float32], float]:
            decision = self._burst(t, clients, first, stop)
            voters.append(decision.voters)
            return decision.soft_votes, decision.snr_db

        return uplink_in_bursts(k, settings, send), min(voters)

    def _burst(self, t: int, clients: Collection[int], first: int, stop: int) -> Decision:
        started, tries = time.monotonic(), 0
        while True:
            call = self._await_call()
            self._bench.announce(call, stop - first, clients)
            self._tell(clients, t, {"radio_round": call.round, "run": call.run, "first": first, "stop": stop})
            decision = self._await_decision(call)
            tries += 1
            if decision is not None and decision.soft_votes.size == stop - first and decision.voters > 0:
                able = self._bench.able(clients)
                if decision.voters >= (able if tries <= PARTIAL_ROUNDS else min(able, self._min_clients)):
                    return decision
            if time.monotonic() - started > FRUITLESS_SECONDS:
                raise RadioError(self._bench.complaint(FRUITLESS_SECONDS))

    def _await_call(self) -> Call:
        """The round that the radios want votes for."""
        started = time.monotonic()
        while (call := self._bench.open_call) is None:
            self._wait(started)
        return call

    def _await_decision(self, call: Call) -> Decision | None:
        """What became of a round; None if another is called for and nothing did."""
        started = time.monotonic()
        while (decision := self._bench.decision) is None or decision.call != call:
            if self._bench.open_call not in (None, call):
                return None
            self._wait(started)
        return decision

    def _wait(self, started: float) -> None:
        """For a moment."""
        silent = time.monotonic() - max(started, self._bench.heard)
        if silent > SILENT_SECONDS:
            raise RadioError(self._bench.complaint(SILENT_SECONDS))
        self._listen(silent)
