# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual Plutos on the network: a port for each radio, a thread for each connection, one that computes."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType

from oac_blocks.dsp.checks import integer
from oac_blocks.radio.virtual.air import Air
from oac_blocks.radio.virtual.air_settings import AirSettings
from oac_blocks.radio.virtual.faults import Fault, parse_fault
from oac_blocks.radio.virtual.session import Session

_log = logging.getLogger(__name__)
MOST_CONNECTIONS = 128  # of one radio; more are turned away at the door


class VirtualPlutos:
    """Serves from ``with`` on. ``base_port`` 0 takes free ports. Loopback alone, unless another ``host`` is named."""

    def __init__(
        self,
        settings: AirSettings,
        *,
        base_port: int = 0,
        host: str = "127.0.0.1",
        lock_step: bool = False,
        expected: int | None = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        integer("base_port", base_port, 0, 65_535 - settings.radios)
        self._host = host
        self._lock = threading.Lock()
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._connections: list[set[socket.socket]] = [set() for _ in range(settings.radios)]
        self._listeners: list[socket.socket | None] = []
        try:
            for radio in range(settings.radios):
                self._listeners.append(self._listen(base_port + radio if base_port else 0))
        except OSError:
            self._close_listeners()
            raise
        self.ports = [listener.getsockname()[1] for listener in self._listeners if listener is not None]
        self.uris = [f"ip:{host}:{port}" for port in self.ports]
        self.air = Air(settings, self.uris, lock_step=lock_step, expected=expected, faults=faults)
        self.air.unplugged, self.air.plugged = self._unplug, self._plug

    def __enter__(self) -> VirtualPlutos:
        self._start(self._run_air, "air")
        for radio in range(len(self.ports)):
            self._start_accepting(radio)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._stopping = True
        self.air.stop()
        self._close_listeners()
        for radio in range(len(self.ports)):
            self._hang_up(radio)
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(5)

    def fault(self, line: str) -> None:
        """A line of the console (``faults``); ValueError if it is none."""
        self.air.fault(parse_fault(line, len(self.ports)))

    def _run_air(self) -> None:
        try:
            self.air.run()
        except Exception:
            # A fault of this program. Clients that wait get an error, and not silence for ever.
            _log.exception("the air stopped")
            self.air.stop()

    def _listen(self, port: int) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, port))
            listener.listen(64)
        except OSError:
            listener.close()
            raise
        return listener

    def _close_listeners(self) -> None:
        for radio, listener in enumerate(self._listeners):
            self._listeners[radio] = None
            if listener is not None:
                _close(listener)

    def _hang_up(self, radio: int) -> None:
        with self._lock:
            connections = list(self._connections[radio])
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _unplug(self, radio: int) -> None:
        listener, self._listeners[radio] = self._listeners[radio], None
        if listener is not None:
            _close(listener)
        self._hang_up(radio)

    def _plug(self, radio: int) -> None:
        try:
            self._listeners[radio] = self._listen(self.ports[radio])
        except OSError as error:
            _log.error("radio %d stays unplugged, its port is taken: %s", radio, error)
            return
        self._start_accepting(radio)

    def _start_accepting(self, radio: int) -> None:
        listener = self._listeners[radio]
        if listener is not None:
            self._start(partial(self._accept, radio, listener), f"radio {radio}")

    def _accept(self, radio: int, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed: unplugged or at the end
            with self._lock:
                welcome = not self._stopping and len(self._connections[radio]) < MOST_CONNECTIONS
                if welcome:
                    self._connections[radio].add(connection)
            if not welcome or self._listeners[radio] is not listener:
                _close(connection)
                with self._lock:
                    self._connections[radio].discard(connection)
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(partial(self._serve, radio, connection), f"client of radio {radio}")

    def _serve(self, radio: int, connection: socket.socket) -> None:
        try:
            Session(connection, self.air, radio).serve()
        finally:
            with self._lock:
                self._connections[radio].discard(connection)
            _close(connection)

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive() or one.ident is None]
            self._threads.append(thread)
        thread.start()


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept or recv
    one.close()
