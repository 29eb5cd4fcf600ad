# SPDX-License-Identifier: GPL-3.0-or-later
"""The air of clients that transmit by their own radios: when the radios call for votes, clients hand them over.

Rounds of the radios are not rounds of the training: they go on by themselves, and a long payload takes several. A round
that came too early for somebody is no loss, since the next one carries the same votes; each entry is decided once.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.live.flow_bursts import CarriedBurst, uplink_in_bursts
from fl_app.air.live.flow_messages import Decision, observation_of
from fl_app.air.observed import Observation
from fl_app.air.scales import scale_of_reports
from fl_app.air.settings import AirSettings
from fl_app.link.radio_bench import RadioBench
from oac_blocks.errors import OacError
from oac_blocks.rounds.delivery import Delivery, DeliveryRules
from oac_blocks.rounds.messages import Call

_log = logging.getLogger(__name__)

SILENT_SECONDS = 60.0  # seconds without a message before the flowgraph counts as dead
FRUITLESS_SECONDS = 30.0  # seconds with too few votes before a flowgraph that sends messages is given up
OVERTAKEN_SECONDS = 0.5  # seconds that a decision may come after the next call: they are on two sockets


class UplinkError(OacError, RuntimeError):
    """Nothing is heard of the radios; the message says what is known of them."""


class TooFewVotersError(UplinkError):
    """The radios live, and bring the votes of too few clients."""


class RadioClients(Protocol):
    """The server's way to its clients, as this air needs it."""

    def transmit(self, clients: Collection[int], t: int, burst: Mapping[str, float]) -> None:
        """Have these clients hand a part of their payload of round t to their radios."""
        ...

    def listen(self, undecided_seconds: float) -> None:
        """Let messages in for a moment, those of the bench too; no round was decided for so many seconds."""
        ...

    def train_again(self, t: int) -> list[int]:
        """Ask for the payloads of round t once more, and return the clients that have one."""
        ...

    def levels(self, clients: Collection[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return RMS and peak of the entries of these clients, as they have reported them."""
        ...


class RadioAir(Air):
    """The payloads are at the clients; the server's flowgraph tells what it received, and of whom."""

    def __init__(
        self,
        settings: AirSettings,
        bench: RadioBench,
        clients: RadioClients,
        min_clients: int = 1,
        patience_seconds: float = 0.0,
    ) -> None:
        """patience_seconds: how long payloads are asked for again while radios bring those of too few clients."""
        self.settings, self.scheme = settings, settings.scheme
        self._bench, self._clients = bench, clients
        self._min_clients, self._patience_seconds = min_clients, patience_seconds
        self._started = 0.0  # when the burst at hand was begun, on the monotonic clock

    def uplink(self, payload: NDArray[Any] | Unseen, clients: NDArray[np.int64], t: int) -> Uplink:
        """Have the clients transmit; what the server knows of their payloads is not used."""
        k = payload.k if isinstance(payload, Unseen) else payload.shape[1]
        started = time.monotonic()
        while True:
            try:
                return self._collect(clients, t, k)
            except TooFewVotersError as error:
                if time.monotonic() - started > self._patience_seconds:
                    raise
                _log.warning("round %d: %s; clients are asked again", t, error)
                clients = np.array(self._clients.train_again(t), np.int64)

    def observe(self) -> Observation | None:
        rate_hz = self._bench.sample_rate_hz or self.settings.sample_rate_hz
        return observation_of(self._bench.report, rate_hz)

    def close(self) -> None:
        self._bench.close()

    def _collect(self, clients: NDArray[np.int64], t: int, k: int) -> Uplink:
        """Take the k votes of these clients in round t, burst by burst."""
        numbers = clients.tolist()
        scale = self._common_scale(numbers)

        def send(first: int, stop: int) -> CarriedBurst:
            decision = self._burst(t, numbers, first, stop, scale)
            return CarriedBurst(decision.soft_votes, decision.snr_db, decision.heard)

        uplink = uplink_in_bursts(k, clients, self.settings, send, scale)
        # The radios' rate is their own affair, and need not stand in the run's config.
        rate_hz = self._bench.sample_rate_hz or self.settings.sample_rate_hz
        air_seconds = uplink.air_seconds * self.settings.sample_rate_hz / rate_hz
        return dataclasses.replace(uplink, air_seconds=air_seconds)

    def _common_scale(self, clients: Collection[int]) -> float:
        """Return the scale of all clients, from what they report of their entries; 1 for votes."""
        return scale_of_reports(self.scheme, *self._clients.levels(clients)) if self.scheme.scaled else 1.0

    def _burst(self, t: int, clients: Collection[int], first: int, stop: int, scale: float) -> Decision:
        self._started = time.monotonic()
        rules = DeliveryRules(self._min_clients, most_seconds=FRUITLESS_SECONDS)
        delivery = Delivery(clients, stop - first, rules)
        while True:
            call = self._await_call(delivery)
            self._bench.announce(call, stop - first, clients)
            burst: dict[str, float] = {"radio_round": call.round, "run": call.run, "first": first, "stop": stop}
            if self.scheme.scaled:
                burst["scale"] = scale
            self._clients.transmit(clients, t, burst)
            decision = self._await_decision(call, delivery)
            self._refuse_a_fault()
            if decision is None:
                continue
            able = self._bench.able(clients, call)
            verdict, _ = delivery.judge(decision.heard, decision.soft_votes.size, able)
            if verdict == "accept":
                return decision

    def _await_call(self, delivery: Delivery) -> Call:
        """Return a round that the radios want votes for, while there is time to bring them."""
        while (call := self._bench.fresh_call()) is None:
            self._wait(delivery)
        return call

    def _await_decision(self, call: Call, delivery: Delivery) -> Decision | None:
        """Return what became of a round; None if another one is called for and nothing was heard of this one."""
        overtaken = float("inf")
        while (decision := self._bench.decision_of(call)) is None:
            if self._bench.last_call != call:
                overtaken = min(overtaken, time.monotonic())
            if time.monotonic() - overtaken > OVERTAKEN_SECONDS:
                return None
            self._wait(delivery)
        return decision

    def _wait(self, delivery: Delivery) -> None:
        """Let messages in for a moment; an error if the radios are silent, or live and bring too few votes."""
        now = time.monotonic()
        self._refuse_a_fault()
        if now - max(self._started, self._bench.heard) > SILENT_SECONDS:
            raise UplinkError(self._bench.complaint(SILENT_SECONDS))
        lives = now - self._bench.heard < FRUITLESS_SECONDS
        if lives and delivery.wait(now - self._started).verdict == "give up":
            raise TooFewVotersError(self._bench.complaint(FRUITLESS_SECONDS))
        self._clients.listen(now - max(self._started, self._bench.decided))

    def _refuse_a_fault(self) -> None:
        if self._bench.fault:
            raise UplinkError(self._bench.fault)
