# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide a flag that a signal handler sets and the main thread waits for, to end the process."""

from __future__ import annotations

import contextlib
import os
import select
import signal


class StopSignal:
    """A flag that SIGTERM and SIGINT set, from the moment it is created. Only the main thread may create one.

    A signal handler runs in the main thread, between two instructions of the interrupted code. A handler that calls
    ``threading.Event.set`` deadlocks if the main thread is inside ``Event.wait`` and holds the event's lock, because
    the thread then waits for its own lock. A pipe has no lock.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.set())

    def set(self) -> None:
        """Act as if a signal had arrived."""
        with contextlib.suppress(BlockingIOError):  # the pipe is already full of signals, and one is enough
            os.write(self._writer, b"s")

    def is_set(self) -> bool:
        """Return whether a signal has arrived."""
        return self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal for at most ``seconds``, and return whether one has arrived, now or earlier."""
        return bool(select.select([self._reader], [], [], seconds)[0])
