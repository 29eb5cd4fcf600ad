# SPDX-License-Identifier: GPL-3.0-or-later
"""Relay orders and status between flowgraphs on different machines, encrypted and authenticated.

GNU Radio's sockets do not support keys, so they stay on their own machine, and a relay beside each flowgraph carries
the messages from one machine to the other.

    server's flowgraph  --orders-->  relay  ==CURVE==>  relay  --orders-->  client's flowgraph
                       <--status--          <=========        <--status--
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any

import zmq

from fl_app.link.curve import as_client, as_server, guard, user_of
from fl_app.link.keys import ClientKeys, ServerKeys
from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.pmt_bytes import deserialise
from oac_blocks.errors import OacError

_log = logging.getLogger(__name__)

MOST_BYTES = 4096  # bytes of the largest message; a status or an order has a few hundred
LOOK_MILLISECONDS = 100  # milliseconds between two looks at whether to stop


class RelayError(OacError, RuntimeError):
    """The relay cannot listen or connect; the message says where."""


class Relay:
    """Relay messages in a thread until `close`. `inside` and `outside` give the endpoints of `status` and `orders`."""

    def __init__(self, inside: dict[str, str], outside: dict[str, str], keys: ServerKeys | ClientKeys) -> None:
        self._admitted = keys.admitted if isinstance(keys, ServerKeys) else None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = guard(self._context, keys) if isinstance(keys, ServerKeys) else None
        self._bad = 0
        self._stop = threading.Event()
        try:
            # The server's flowgraph binds its sockets; a client's flowgraph connects to the relay's.
            if isinstance(keys, ServerKeys):
                self._status_in = self._bind(zmq.PULL, outside["status"], keys)
                self._status_out = self._connect(zmq.PUSH, inside["status"])
                self._orders_in = self._connect(zmq.SUB, inside["orders"])
                self._orders_out = self._bind(zmq.PUB, outside["orders"], keys)
            else:
                self._status_in = self._bind(zmq.PULL, inside["status"])
                self._status_out = self._connect(zmq.PUSH, outside["status"], keys)
                self._orders_in = self._connect(zmq.SUB, outside["orders"], keys)
                self._orders_out = self._bind(zmq.PUB, inside["orders"])
        except zmq.ZMQError as error:
            self._end()
            raise RelayError(f"cannot relay {inside['status']} to {outside['status']}: {error.strerror}") from None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _bind(self, kind: int, endpoint: str, keys: ServerKeys | None = None) -> zmq.Socket[bytes]:
        socket = self._socket(kind)
        if keys is not None:
            as_server(socket, keys)
        socket.bind(endpoint)
        return socket

    def _connect(self, kind: int, endpoint: str, keys: ClientKeys | None = None) -> zmq.Socket[bytes]:
        socket = self._socket(kind)
        if keys is not None:
            as_client(socket, keys)
        if kind == zmq.SUB:
            socket.subscribe(b"")
        socket.connect(endpoint)
        return socket

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.MAXMSGSIZE, MOST_BYTES)
        return socket

    def _run(self) -> None:
        poller = zmq.Poller()
        for socket in (self._status_in, self._orders_in):
            poller.register(socket, zmq.POLLIN)
        while not self._stop.is_set():
            for socket, _ in poller.poll(LOOK_MILLISECONDS):
                frame: Any = socket.recv(copy=False)
                if socket is self._orders_in:
                    self._pass_on(self._orders_out, frame.bytes)
                elif self._is_his_own(frame):
                    self._pass_on(self._status_out, frame.bytes)

    def _pass_on(self, socket: zmq.Socket[bytes], message: bytes) -> None:
        with contextlib.suppress(zmq.Again):  # there is no receiver; no single message of a round is essential
            socket.send(message, zmq.DONTWAIT)

    def _is_his_own(self, frame: zmq.Frame) -> bool:
        """Check at the server that a client reports its own status only."""
        if self._admitted is None:
            return True
        sender = self._admitted.get(user_of(frame))
        try:
            status = pdus.read_notice(deserialise(frame.bytes))
        except Exception as error:  # a message of a stranger must not end the relay
            status = str(error)
        client = status.get("client") if isinstance(status, dict) else None
        if isinstance(client, int) and client == sender:
            return True
        self._bad += 1
        if self._bad == 1:
            _log.warning("dropped a status of client %s: it is not its own (more will be dropped silently)", sender)
        return False

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._end()

    def _end(self) -> None:
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.destroy(linger=0)
