# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a client as a process: a DEALER socket that reconnects by itself, and a thread that trains.

Training runs beside the socket, so that the client can send heartbeats while it computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import zmq

from fl_app.config import ConfigError
from fl_app.link import curve
from fl_app.link.address import is_local
from fl_app.link.caller import Caller, Phase, Result, Work
from fl_app.link.keys import ClientKeys
from fl_app.link.trainer import Trainer
from fl_app.link.wire import Frame
from oac_blocks.errors import OacError

QUEUED_MESSAGES = 32  # most messages that wait to be sent
LONELY_SECONDS = 15.0  # seconds without an answer before the client tells the user
RECONNECT_MS = 100  # milliseconds until the first attempt to reconnect
RECONNECT_MOST_MS = 2000  # longest pause between two attempts, in milliseconds
STOPPED = "stopped; the others go on"


class ClientError(OacError, RuntimeError):
    """The client cannot take part, or can no longer take part; the message says why."""


class Inline(Executor):
    """Compute at once in the calling thread, for clients whose work takes no time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Client:
    """Run one client and its connection until the run is over."""

    def __init__(
        self,
        server: str,
        caller: Caller,
        trainer: Trainer,
        keys: ClientKeys | None = None,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
        executor: Executor | None = None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        if keys is None and not is_local(server):
            raise ConfigError(
                f"{server} is another machine: a connection to it needs keys (`fl_app keys`, then --keys)"
            )
        self._server, self._caller, self._trainer, self._tell = server, caller, trainer, tell
        self._executor = executor or ThreadPoolExecutor(1)
        self._busy: Future[Any] | None = None
        self._working_on: Work | None = None
        self._read_end, self._write_end = os.pipe()
        self._socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        self._connect(keys)

    def _connect(self, keys: ClientKeys | None) -> None:
        socket = self._socket
        socket.set(zmq.LINGER, 200)
        socket.set(zmq.IMMEDIATE, 1)  # no messages queue up for an absent server
        socket.set(zmq.SNDHWM, QUEUED_MESSAGES)
        socket.set(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS)
        if keys is not None:
            curve.as_client(socket, keys)
        try:
            socket.connect(self._server)
        except zmq.ZMQError as error:
            self.close()
            raise ClientError(f"cannot connect to {self._server}: {error.strerror}") from None

    def run(self, patience_seconds: float, should_stop: Callable[[], bool] = lambda: False) -> str:
        """Take part until the run is over, and return why it ended; raise `ClientError` if the server refuses."""
        caller = self._caller
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._read_end, zmq.POLLIN)
        started = heard = time.monotonic()
        tick_at, told = 0.0, False
        phase: Phase | None = None
        while not caller.is_over:
            now = time.monotonic()
            if should_stop():
                self._send(caller.leave())
                return STOPPED
            heard = max(heard, caller.heard or 0.0)
            if now - heard > patience_seconds:
                raise ClientError(f"the server at {self._server} was silent for {patience_seconds:g} s")
            if caller.heard is None and now - started > LONELY_SECONDS and not told:
                told = True
                self._tell(
                    f"no server answers at {self._server} yet: is `fl_app server` running there? {curve.ONE_SIDED}"
                )
            if now >= tick_at:
                tick_at = now + caller.heartbeat_seconds
                self._send(caller.tick())
            events = dict(poller.poll(max(1, int(1000 * (tick_at - now)))))
            if self._socket in events:
                self._receive()
            if self._read_end in events:
                os.read(self._read_end, 4096)
            self._compute()
            if caller.phase != phase:
                phase = caller.phase
                self._tell(f"client {caller.client}: {phase}")
        if caller.phase == "refused":
            raise ClientError(f"the server refused: {caller.reason}")
        return caller.reason

    def _receive(self) -> None:
        while True:
            try:
                frames: list[Frame] = list(self._socket.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return
            self._send(self._caller.handle(frames, time.monotonic()))

    def _send(self, messages: list[list[Frame]]) -> None:
        for frames in messages:
            try:
                self._socket.send_multipart(frames, zmq.DONTWAIT)
            except zmq.Again:  # there is no connection; important messages are sent again later
                return

    def _compute(self) -> None:
        """Take the result that the other thread has finished, and give it the next work."""
        caller = self._caller
        while self._busy is None or self._busy.done():
            if self._busy is not None:
                outcome, self._busy = self._busy.result(), None
                self._finished(outcome)
            if caller.phase == "preparing" and caller.welcome is not None:
                if caller.welcome.payload_to != "server" and not caller.has_radio:
                    raise ClientError("the votes of this run go by radio: give its flowgraph's address with --radio")
                self._start(self._trainer.prepare, caller.welcome)
            elif (work := caller.next_work()) is not None:
                self._working_on = work
                self._start(self._trainer.work, work)
            else:
                return

    def _finished(self, outcome: Any) -> None:
        if isinstance(outcome, Result):
            assert self._working_on is not None
            self._send(self._caller.finish(self._working_on, outcome))
        else:
            self._send(self._caller.prepared(*outcome))

    def _start(self, task: Callable[[Any], Any], argument: Any) -> None:
        self._busy = self._executor.submit(task, argument)
        self._busy.add_done_callback(lambda _: os.write(self._write_end, b"!"))

    def close(self) -> None:
        self._socket.close()
        self._executor.shutdown(wait=self._busy is None or self._busy.done(), cancel_futures=True)
        if self._busy is None or self._busy.done():
            os.close(self._read_end)
            os.close(self._write_end)
