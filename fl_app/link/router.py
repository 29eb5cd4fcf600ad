# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage the server's ROUTER socket: connections and their keys, messages in and out, and the desk behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from fl_app.link import curve
from fl_app.link.address import is_local, on_loopback
from fl_app.link.desk import Desk
from fl_app.link.keys import ServerKeys
from fl_app.link.terms import Outgoing
from oac_blocks.errors import OacError

QUEUED_MESSAGES = 32  # messages queued from a client, and to one that does not read; it asks for what it misses
BACKLOG = 1024  # connections that may arrive at the same moment
MESSAGES_AT_ONCE = 256  # messages that are handled before the clock is read again
FAREWELL_SECONDS = 2.0  # seconds during which clients are told that the run is over


class LinkError(OacError, RuntimeError):
    """The link cannot be opened, or too few clients are present; the message says which, and what to do."""


class RouterLink:
    """Connect the ROUTER socket with the desk."""

    def __init__(self, bind: str, keys: ServerKeys | None, tell: Callable[[str], None]) -> None:
        if keys is None and not is_local(bind):
            tell(f"without keys the server listens on this machine alone: {on_loopback(bind)} instead of {bind}")
            bind = on_loopback(bind)
        self.keys, self._tell = keys, tell
        self.desk: Desk | None = None
        self.sent_bytes, self.told = 0, set[bytes]()  # bytes of models and changes, and the clients that received them
        self._context = zmq.Context()
        self._authenticator: ThreadAuthenticator | None = None
        self._file: tuple[Path, int, int] | None = None  # a Unix socket's path, inode and time of change
        # Bind on trial now, so that an address in use is known before the data is loaded. The socket is opened when the
        # largest message is known, since a socket applies its limits only to later connections.
        self._socket = self._context.socket(zmq.ROUTER)
        try:
            # A closed socket keeps listening until ZeroMQ's thread has handled it. The end of a context waits for
            # this, so that the address is free again when it is opened for good.
            with zmq.Context() as trials, trials.socket(zmq.ROUTER) as trial:
                trial.set(zmq.LINGER, 0)
                self.endpoint = _bind(trial, bind)
                self._file = _file_of(self.endpoint)
        except LinkError:
            self.close()
            raise

    def serve(self, desk: Desk) -> None:
        """Open the socket, and let this desk answer from now on."""
        self.desk = desk
        self._beat_at, self._listened_at = 0.0, time.monotonic()
        socket = self._socket
        socket.set(zmq.LINGER, 0)
        # A message that is slightly too large is read and logged; a much larger one is not read.
        socket.set(zmq.MAXMSGSIZE, 2 * desk.terms.max_bytes)
        socket.set(zmq.ROUTER_MANDATORY, 1)  # sending over a lost connection is then an error
        socket.set(zmq.SNDHWM, QUEUED_MESSAGES)
        socket.set(zmq.RCVHWM, QUEUED_MESSAGES)
        socket.set(zmq.BACKLOG, BACKLOG)
        if self.keys is not None:
            self._authenticator = curve.guard(self._context, self.keys)
            curve.as_server(socket, self.keys)
        _bind(socket, self.endpoint)
        self._file = _file_of(self.endpoint)
        self._tell(
            f"listening on {self.endpoint}, " + ("for clients with listed keys" if self.keys else "without keys")
        )

    def send(self, outgoing: list[Outgoing]) -> None:
        """Send messages; the desk drops clients whose connection is lost."""
        for one in outgoing:
            self._send_one(one)

    def _send_one(self, one: Outgoing) -> bool:
        try:
            self._socket.send_multipart([one.identity, *one.frames], zmq.DONTWAIT, copy=False)
        except zmq.Again:
            return True  # the client does not read at the moment; its heartbeats will show what it lacks
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            if self.desk is not None:
                self.desk.gone(one.identity)
            return False
        if one.kind in ("work", "model"):
            self.sent_bytes += sum(len(frame) for frame in one.frames)
            self.told.add(one.identity)
        return True

    def is_reachable(self, identity: bytes) -> bool:
        """Say whether a connection still exists, by sending a heartbeat over it."""
        session = self.desk.sessions.get(identity) if self.desk else None
        assert self.desk is not None
        return session is not None and self._send_one(self.desk.beat(session))

    def pump(self, seconds: float, also: Sequence[zmq.Socket[bytes]] = ()) -> None:
        """Handle messages for at most this time, or until some have come, here or at one of the other sockets."""
        desk = self.desk
        assert desk is not None
        now = time.monotonic()
        if now - self._listened_at > desk.terms.heartbeat_seconds:
            desk.forgive(now - self._listened_at)  # the air or the evaluation took long
        if now >= self._beat_at:
            self._beat_at = now + desk.terms.heartbeat_seconds
            self.send(desk.beats())
        seconds = max(0.0, min(seconds, self._beat_at - now))
        poller = zmq.Poller()
        for one in (self._socket, *also):
            poller.register(one, zmq.POLLIN)
        came = self._socket in dict(poller.poll(int(1000 * seconds) + 1))
        self._listened_at = time.monotonic()
        for _ in range(MESSAGES_AT_ONCE if came else 0):
            try:
                identity, *frames = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            self.send(desk.handle(identity.bytes, self._user(identity), [f.buffer for f in frames], time.monotonic()))

    def _user(self, frame: zmq.Frame) -> str | None:
        """Return the public key of the connection, as CURVE has verified it."""
        return None if self.keys is None else curve.user_of(frame)

    def farewell(self, reason: str) -> None:
        """Tell all clients that the run is over, until they have left or FAREWELL_SECONDS have passed."""
        if self.desk is None:
            return
        self.send(self.desk.stop(reason))
        deadline = time.monotonic() + FAREWELL_SECONDS
        while self.desk.sessions and time.monotonic() < deadline:
            self.pump(deadline - time.monotonic())

    def close(self) -> None:
        # ZeroMQ does not remove the file of a Unix socket. If another server has taken over the path, the file is that
        # server's and must stay.
        if self._file is not None and self._file == _file_of(self.endpoint):
            self._file[0].unlink(missing_ok=True)
        self._socket.close(linger=200)
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()


def _file_of(endpoint: str) -> tuple[Path, int, int] | None:
    """Return what tells the file of a Unix socket from a later one at its path; None for other sockets, or no file."""
    path = Path(endpoint.removeprefix("ipc://"))
    try:
        status = path.stat() if endpoint.startswith("ipc://") else None
    except OSError:
        return None
    return None if status is None else (path, status.st_ino, status.st_ctime_ns)


def _bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        by = ", perhaps by another `fl_app server`; end that one, or" if error.errno == zmq.EADDRINUSE else ";"
        raise LinkError(
            f"cannot listen on {endpoint}: {zmq.strerror(error.errno or 0)}{by} choose another --bind"
        ) from None
    return socket.get_string(zmq.LAST_ENDPOINT)
