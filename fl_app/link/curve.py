# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure sockets with CURVE: encryption, an authenticated server, and admission of clients with listed keys only."""

from __future__ import annotations

import logging
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator

from fl_app.link.keys import ClientKeys, ServerKeys

_log = logging.getLogger(__name__)

ONE_SIDED = "If only one of the two was started with --keys, they cannot talk: give it to both or to none."


def guard(context: zmq.Context[Any], keys: ServerKeys) -> ThreadAuthenticator:
    """Admit only listed keys to the context's servers from now on. Stop the result before the context ends."""
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback("*", _Admission(keys.admitted))
    return authenticator


def as_server(socket: zmq.Socket[bytes], keys: ServerKeys) -> None:
    """Make a socket the server's end of CURVE, before it binds."""
    socket.set(zmq.CURVE_SERVER, 1)
    socket.set(zmq.CURVE_SECRETKEY, keys.pair.secret.encode())


def as_client(socket: zmq.Socket[bytes], keys: ClientKeys) -> None:
    """Make a socket the client's end of CURVE, before it connects."""
    socket.set(zmq.CURVE_SERVERKEY, keys.server.encode())
    socket.set(zmq.CURVE_PUBLICKEY, keys.pair.public.encode())
    socket.set(zmq.CURVE_SECRETKEY, keys.pair.secret.encode())


def user_of(frame: zmq.Frame) -> str:
    """Return the public key of the connection that sent a frame, as CURVE has verified it."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return "nobody"  # this is not a key that could be listed


class _Admission:
    """Admit connections with a listed key, and no others."""

    def __init__(self, admitted: dict[str, int]) -> None:
        self._admitted = admitted

    def callback(self, _domain: str, key: bytes) -> bool:
        if key.decode("ascii", "replace") in self._admitted:
            return True
        _log.warning("refused a connection with a key that is not listed: %s", key.decode("ascii", "replace"))
        return False
