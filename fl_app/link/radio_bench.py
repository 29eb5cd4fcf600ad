# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of the bench's radios: the server listens to its flowgraph, a client hands its votes to its own.

The flowgraphs run by themselves (`fl_app radio`) and call for votes round after round, whether there are any or not:
rounds without votes keep the clocks in step. They may be started anew at any time; sockets reconnect by themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

import zmq

from fl_app.air.live import flow_messages
from fl_app.air.live.flow_messages import Decision, Report
from fl_app.air.settings import AirSettings
from fl_app.config import ConfigError
from fl_app.link.address import is_local
from fl_app.link.caller import RadioBurst
from oac_blocks.bench.flows.endpoints import Endpoints, payload_endpoint
from oac_blocks.dsp.waveform.round_layout import AGREED, disagreements
from oac_blocks.rounds.messages import Call

_log = logging.getLogger(__name__)

QUEUED_MESSAGES = 16
KEPT_DECISIONS = 4
FRESH_SHARE = 0.5  # of the time that a round waits for votes: in the rest of it clients bring them
TRACKING = "tracking"

Read = TypeVar("Read")


class RadioBench:
    """The server's end: which round is called for, what the last one brought, how the clients' radios do."""

    def __init__(self, address: str, n_clients: int, air: AirSettings | None = None) -> None:
        """air: the run's; a flowgraph with another waveform is a ``fault``. Without it any will do."""
        endpoints = checked(address, Endpoints.at)
        self.address, self._n_clients = address, n_clients
        self._own_waveform = {} if air is None else {name: getattr(air, name) for name in AGREED}
        self._waveform: Mapping[str, float] = {}
        self.last_call: Call | None = None
        self.heard = self.decided = float("-inf")  # when, on the monotonic clock
        self._fresh_until = float("-inf")
        self._decisions: dict[Call, Decision] = {}  # the last few
        self.report: Report | None = None  # the calibrator's last one
        self._reported: dict[int, tuple[str, ...]] = {}  # states after each of the last few rounds
        self._bad = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._next, self._soft_votes, self._report = (
            self._subscribe(endpoint) for endpoint in (endpoints.next, endpoints.soft_votes, endpoints.report)
        )
        self._ballot = _pusher(self._context, endpoints.ballot)

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        return [self._next, self._soft_votes, self._report]

    def take(self) -> None:
        """Read all that has come."""
        calls = self._read(self._next, flow_messages.read_call)
        decisions = self._read(self._soft_votes, flow_messages.read_decision)
        reports = self._read(self._report, flow_messages.read_report)
        now = time.monotonic()
        if calls:
            self.last_call, seconds = calls[-1]
            self._fresh_until = now + FRESH_SHARE * seconds
        for decision in decisions:
            self._decisions[decision.call] = decision
            self.decided = now
        while len(self._decisions) > KEPT_DECISIONS:
            del self._decisions[next(iter(self._decisions))]
        for report in reports:
            if self._reported and report.round < max(self._reported):
                self._reported.clear()  # the flowgraph was started anew and counts from 0
            self._reported[report.round], self.report = report.states, report
        while len(self._reported) > KEPT_DECISIONS:
            del self._reported[next(iter(self._reported))]
        for waveform in (*(report.waveform for report in reports), *(decision.waveform for decision in decisions)):
            self._waveform = waveform or self._waveform
        if reports or decisions or calls:
            self.heard = now

    @property
    def _states(self) -> tuple[str, ...]:
        return () if self.report is None else self.report.states

    def fresh_call(self) -> Call | None:
        """The round that votes are wanted for, unless it is decided or about to be played without."""
        call = self.last_call
        return call if call not in self._decisions and time.monotonic() < self._fresh_until else None

    def decision_of(self, call: Call) -> Decision | None:
        return self._decisions.get(call)

    def announce(self, call: Call, votes: int, clients: Collection[int]) -> None:
        """Tell all radios how many votes the round has, and who takes part."""
        takes_part = [client in clients for client in range(self._n_clients)]
        _push(self._ballot, flow_messages.ballot(call, votes, takes_part))

    def able(self, clients: Collection[int], call: Call) -> list[int]:
        """Return which of these clients had a radio that was able to send votes when this round began.

        The report of a round that is over may come before or behind its soft votes: they are on two sockets. So the
        newest report from before the round counts. Clients of which nothing was heard count as able.
        """
        before = [states for number, states in self._reported.items() if number < call.round]
        states = before[-1] if before else self._states
        return [client for client in clients if client >= len(states) or states[client] == TRACKING]

    def state_of(self, client: int) -> str:
        """Of its radio; empty as long as nothing was heard."""
        return self._states[client] if client < len(self._states) else ""

    @property
    def fault(self) -> str:
        """What makes this flowgraph unfit for the run, in a sentence."""
        if self._states and len(self._states) != self._n_clients:
            return f"the flowgraph at {self.address} has {len(self._states)} clients, and this run {self._n_clients}"
        apart = disagreements(self._own_waveform, self._waveform)
        apart.pop("sample_rate_hz", None)  # the radios' rate is theirs: the run books its time by it
        if not apart:
            return ""
        there = ", ".join(f"{name} = {told:g}" for name, (_, told) in apart.items())
        here = ", ".join(f"{own:g}" for own, _ in apart.values())
        change = " ".join(f"--set air.{name}={own:g}" for name, (own, _) in apart.items())
        return (
            f"the flowgraph at {self.address} has {there}, and this run's [air] {here}; "
            f"start `fl_app radio` with {change}, or the server with the flowgraph's"
        )

    @property
    def sample_rate_hz(self) -> float | None:
        """The flowgraph's; None as long as it has not been told."""
        return self._waveform.get("sample_rate_hz")

    def complaint(self, seconds: float) -> str:
        """Why no votes come, in a sentence."""
        if not self._states and self.last_call is None:
            return f"nothing was heard of the flowgraph at {self.address} in {seconds:g} s; is `fl_app radio` running?"
        states = ", ".join(self._states) or "unknown"
        if self.decided == float("-inf") and "tracking" not in self._states:
            return f"the flowgraph at {self.address} is still calibrating its clients after {seconds:g} s: {states}"
        return f"the flowgraph at {self.address} brought too few votes in {seconds:g} s; its clients are: {states}"

    def close(self) -> None:
        self._context.destroy(linger=0)

    def _subscribe(self, endpoint: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.SUB)
        socket.set(zmq.RCVHWM, QUEUED_MESSAGES)
        socket.subscribe(b"")
        socket.connect(endpoint)
        return socket

    def _read(self, socket: zmq.Socket[bytes], read: Callable[[bytes], Read]) -> list[Read]:
        """All that waits at a socket and can be read."""
        found: list[Read] = []
        while True:
            try:
                message = socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                return found
            try:
                found.append(read(message))
            except ValueError as error:
                self._bad += 1
                if self._bad == 1:
                    _log.warning(
                        "dropped a message of the flowgraph at %s: %s (more are dropped in silence)",
                        self.address,
                        error,
                    )


class OwnRadio:
    """A client's end: takes the votes of a burst and hands them to the radio."""

    def __init__(self, address: str, client: int) -> None:
        self._address, self._client, self._is_there = address, client, True
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = _pusher(self._context, checked(address, lambda where: payload_endpoint(where, client)))

    def __call__(self, burst: RadioBurst) -> None:
        message = flow_messages.payload(Call(burst.round, burst.run), self._client, burst.votes)
        was_there, self._is_there = self._is_there, _push(self._socket, message)
        if was_there and not self._is_there:
            _log.warning("nobody takes votes at %s; is `fl_app radio` running?", self._address)

    def close(self) -> None:
        self._context.destroy(linger=0)


def checked(address: str, endpoints: Callable[[str], Read]) -> Read:
    """A flowgraph's sockets have no keys: they stay on this machine."""
    if address.startswith("ipc://") and not Path(address.removeprefix("ipc://")).is_dir():
        _log.warning("there is no folder %s yet; is `fl_app radio` running?", address.removeprefix("ipc://"))
    if not is_local(address):
        raise ConfigError(
            f"{address} is another machine: run the radio's flowgraph (`fl_app radio`) beside this process"
        )
    try:
        return endpoints(address)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _pusher(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.PUSH)
    socket.set(zmq.IMMEDIATE, 1)  # nothing piles up for a flowgraph that is not there
    socket.set(zmq.SNDHWM, QUEUED_MESSAGES)
    socket.connect(endpoint)
    return socket


def _push(socket: zmq.Socket[bytes], message: bytes) -> bool:
    """Is somebody there to take it? If not, it is dropped: a later round calls again."""
    try:
        socket.send(message, zmq.DONTWAIT)
    except zmq.Again:
        return False
    return True
