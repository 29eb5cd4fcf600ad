# SPDX-License-Identifier: GPL-3.0-or-later
"""Was the process asked to end? A flag that a signal handler sets and the main thread waits for."""

from __future__ import annotations

import contextlib
import os
import select
import signal


class StopSignal:
    """Set by SIGTERM and SIGINT from the moment it is made. Only the main thread may make one.

    A signal handler runs in the main thread, between two instructions of whatever the main thread does. Handlers that
    call ``threading.Event.set`` wait for ever if the main thread is inside ``Event.wait`` and holds the event's lock:
    the lock belongs to the very thread that waits for it. A pipe has no lock.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.set())

    def set(self) -> None:
        """Act as if a signal had come."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full of signals: one is enough
            os.write(self._writer, b"s")

    def is_set(self) -> bool:
        """Return whether a signal has come."""
        return self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal at most so many seconds, and return whether one has come, now or earlier."""
        return bool(select.select([self._reader], [], [], seconds)[0])
