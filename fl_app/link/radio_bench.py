# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of the bench's radios: the server listens to its flowgraph, a client hands its votes to its own.

The flowgraphs run by themselves (`fl_app radio`) and call for votes round after round, whether there are any or not:
rounds without votes keep the clocks in step. They may be started anew at any time; sockets reconnect by themselves.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection
from typing import TypeVar

import zmq

from fl_app.air import flow_messages
from fl_app.air.flow_messages import Call, Decision
from fl_app.config import ConfigError
from fl_app.link.address import is_local
from fl_app.link.caller import Burst
from oac_blocks.flows.endpoints import Endpoints, payload_endpoint

_log = logging.getLogger(__name__)

QUEUED_MESSAGES = 16
TRACKING = "tracking"

Read = TypeVar("Read")


class RadioBench:
    """The server's end: which round is called for, what the last one brought, how the clients' radios do."""

    def __init__(self, address: str, n_clients: int) -> None:
        endpoints = _checked(address, Endpoints.at)
        self.address, self._n_clients = address, n_clients
        self.open_call: Call | None = None  # the newest, unless its round is over
        self.decision: Decision | None = None
        self.heard = float("-inf")  # when, on the monotonic clock
        self._states: tuple[str, ...] = ()
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
        states = self._read(self._report, flow_messages.read_states)
        decisions = self._read(self._soft_votes, flow_messages.read_decision)
        calls = self._read(self._next, flow_messages.read_call)
        self._states = states[-1] if states else self._states
        self.decision = decisions[-1] if decisions else self.decision
        self.open_call = calls[-1] if calls else self.open_call
        if self.decision is not None and self.decision.call == self.open_call:
            self.open_call = None
        if states or decisions or calls:
            self.heard = time.monotonic()

    def announce(self, call: Call, votes: int, clients: Collection[int]) -> None:
        """Tell all radios how many votes the round has, and who takes part."""
        takes_part = [client in clients for client in range(self._n_clients)]
        _push(self._ballot, flow_messages.ballot(call, votes, takes_part))

    def able(self, clients: Collection[int]) -> int:
        """How many of these clients have a radio that may send votes, as far as is known."""
        return sum(self.state_of(client) in (TRACKING, "") for client in clients)

    def state_of(self, client: int) -> str:
        """Of its radio; empty as long as nothing was heard."""
        return self._states[client] if client < len(self._states) else ""

    def complaint(self, seconds: float) -> str:
        """Why no votes come, in a sentence."""
        if not self._states and self.open_call is None:
            return f"nothing was heard of the flowgraph at {self.address} in {seconds:g} s; is `fl_app radio` running?"
        states = ", ".join(self._states) or "unknown"
        return f"the flowgraph at {self.address} brought no votes in {seconds:g} s; its clients are: {states}"

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
        self._client = client
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = _pusher(self._context, _checked(address, lambda where: payload_endpoint(where, client)))

    def __call__(self, burst: Burst) -> None:
        _push(self._socket, flow_messages.payload(Call(burst.round, burst.run), self._client, burst.votes))

    def close(self) -> None:
        self._context.destroy(linger=0)


def _checked(address: str, endpoints: Callable[[str], Read]) -> Read:
    """A flowgraph's sockets have no keys: they stay on this machine."""
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


def _push(socket: zmq.Socket[bytes], message: bytes) -> None:
    # Where the radio is not there, or does not read, a later round calls again.
    with contextlib.suppress(zmq.Again):
        socket.send(message, zmq.DONTWAIT)
