# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual Plutos on the network: an address for each radio, a thread for each connection, and one that computes."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType

from oac_blocks.dsp.checks import integer
from oac_blocks.radio.virtual import addresses
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.shared_air import SharedAir
from oac_blocks.radio.virtual.faults import RadioFault, parse_fault
from oac_blocks.radio.virtual.iiod.session import IiodSession

_log = logging.getLogger(__name__)
MOST_CONNECTIONS = 128  # connections to one radio; further ones are refused
MOST_CONNECTIONS_OF_ALL = 512  # connections to all radios together
_CLOSE_SECONDS = 5.0  # seconds that ``close`` waits for all threads together
_RETRY_SECONDS = 0.1  # seconds to wait after a connection that could not be accepted


class VirtualPlutos:
    """Virtual Plutos that are served inside a ``with`` block, at free loopback addresses unless told otherwise.

    If the thread that computes the air ends by an exception, ``failure`` is this exception, all clients are
    disconnected, and leaving the ``with`` block raises RuntimeError.
    """

    def __init__(
        self,
        settings: VirtualAirSettings,
        *,
        base_port: int | None = 0,
        host: str | None = None,
        lock_step: bool = False,
        expected: int | None = None,
        faults: Sequence[RadioFault] = (),
    ) -> None:
        if base_port is not None:
            integer("base_port", base_port, 0, 65_535 - settings.radios)
        self._lock = threading.Lock()
        self._stopping = False
        self.failure: Exception | None = None  # the error that stopped the air, if there was one
        self._threads: list[threading.Thread] = []
        self._connections: list[set[socket.socket]] = [set() for _ in range(settings.radios)]
        listeners = addresses.listen_for_all(settings.radios, host, base_port)
        self._listeners: list[socket.socket | None] = [*listeners]
        self.addresses: list[addresses.Address] = [listener.getsockname() for listener in listeners]
        self.uris = [addresses.uri(address) for address in self.addresses]
        self.air = SharedAir(settings, self.uris, lock_step=lock_step, expected=expected, faults=faults)
        self.air.unplugged, self.air.plugged = self._unplug, self._plug

    def __enter__(self) -> VirtualPlutos:
        self._start(self._run_air, "air")
        for radio in range(len(self.addresses)):
            self._start_accepting(radio)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self.failure is not None and error is None:
            raise RuntimeError(self.failure_text) from self.failure

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Disconnect all clients, and wait at most this long for the threads to end."""
        until = time.monotonic() + seconds
        self._end()
        for thread in list(self._threads):
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))

    @property
    def failure_text(self) -> str:
        """Return in one line what stopped the air."""
        text = " ".join(str(self.failure).split())
        return f"the air stopped: {type(self.failure).__name__}: {text}"

    def fault(self, line: str) -> None:
        """Let the fault of one line happen, as ``faults`` describes it. Raise ValueError if the line is none."""
        self.air.fault(parse_fault(line, len(self.addresses)))

    def _run_air(self) -> None:
        try:
            self.air.run()
        except Exception as error:
            # An error of this program, or no memory: clients get an error instead of silence for ever.
            self.failure = error
            _log.debug("the air stopped", exc_info=True)
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._stopping = True
        self.air.stop()
        self._close_listeners()
        for radio in range(len(self.addresses)):
            self._hang_up(radio)

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
            self._listeners[radio] = addresses.listen(self.addresses[radio])
        except OSError as error:
            _log.error("radio %d stays unplugged: %s", radio, error.strerror)
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
            except OSError as error:
                if self._listeners[radio] is not listener:
                    return  # the socket was closed: the radio was unplugged, or this is the end
                _log.warning("radio %d could not accept a connection: %s", radio, error)
                time.sleep(_RETRY_SECONDS)
                continue
            with self._lock:
                of_all = sum(map(len, self._connections))
                room = len(self._connections[radio]) < MOST_CONNECTIONS and of_all < MOST_CONNECTIONS_OF_ALL
                welcome = not self._stopping and room
                if welcome:
                    self._connections[radio].add(connection)
            if not welcome or self._listeners[radio] is not listener:
                self._drop(radio, connection)
                continue
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(partial(self._serve, radio, connection), f"client of radio {radio}")
            except (OSError, RuntimeError) as error:  # the client has left again, or there is no thread for it
                _log.warning("radio %d could not serve a connection: %s", radio, error)
                self._drop(radio, connection)

    def _serve(self, radio: int, connection: socket.socket) -> None:
        try:
            IiodSession(connection, self.air, radio).serve()
        finally:
            self._drop(radio, connection)

    def _drop(self, radio: int, connection: socket.socket) -> None:
        with self._lock:
            self._connections[radio].discard(connection)
        _close(connection)

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive() or one.ident is None]
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left
            with self._lock:
                self._threads.remove(thread)
            raise


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)  # wakes threads that wait in accept or recv
    one.close()
