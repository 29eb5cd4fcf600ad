# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle Ctrl-C (SIGINT) and SIGTERM: both have the same effect, and the exit status is 130.

- Before and after a run, a signal ends the process at once, with one line (`end_at_once`).
- While a run starts, until its first round is over, KeyboardInterrupt unwinds it, so that radios are switched off.
- After that, the first signal finishes the round and saves, and the second one unwinds the run (`stop_on_signal`).
- A signal while a run unwinds ends the process at once.

This module imports nothing slow: `fl_app.__main__` needs it before everything else.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

EXIT_CODE = 130  # exit status that a shell reports for a program that Ctrl-C ended
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides the cursor


def end_at_once(words: str = "stopped") -> None:
    """Let a signal end the process from now on, with these words on stderr. Only the main thread may call this.

    An exception would not do: during an import it can be lost, or can appear as another exception.
    """
    for number in SIGNALS:
        signal.signal(number, lambda _number, _frame: leave(words))


def guard_process() -> None:
    """End at once on a signal, from the first line of the program to the last one of the interpreter."""
    end_at_once()
    sys.unraisablehook = _unraisable
    atexit.register(_ignore)  # registered first, so called last, when nothing is left to stop
    # The interpreter searches all objects for cycles when it ends, which takes half a second with torch loaded and
    # frees nothing that the end of the process does not free. It passes over frozen objects.
    atexit.register(gc.freeze)


def leave(words: str) -> NoReturn:
    """End this process now. Child processes end by themselves, since their pipes close."""
    if words:
        write_line(words)
    os._exit(EXIT_CODE)


def write_line(words: str) -> None:
    """Write a line to stderr from a signal handler, where Python's own stream may be in the middle of a write."""
    start = f"{_SHOW_CURSOR}\n" if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{start}{words}\n".encode())


class Stop:
    """Say whether the run was asked to stop; call the object to find out."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._asked = self._unwinding = self._finishes_rounds = False

    def __call__(self) -> bool:
        return self._asked

    def finish_rounds(self) -> None:
        """Note that there is something to keep, so that the first signal no longer unwinds the run."""
        self._finishes_rounds = True

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal: finish the round first, then unwind the run, then end the process."""
        if self._unwinding:
            leave("")
        if self._asked or not self._finishes_rounds:
            self._asked = self._unwinding = True
            raise KeyboardInterrupt
        self._asked = True
        self._tell("finishing this round; a second signal stops at once")


@contextmanager
def stop_on_signal(tell: Callable[[str], None] = write_line) -> Iterator[Stop]:
    """Direct SIGINT and SIGTERM to the yielded `Stop` inside the context.

    In other threads than the main one, in which Python delivers no signals, the `Stop` stays False.
    """
    stop = Stop(tell)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    earlier = {number: signal.signal(number, stop.on_signal) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


@contextmanager
def blocked_for_children() -> Iterator[None]:
    """Block these signals in processes that are started inside; they end when their pipe to this process closes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """End the process on a signal in a finaliser; Python drops an exception there, and the signal would be lost."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        leave("stopped")
    sys.__unraisablehook__(unraisable)


def _ignore() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # A KeyboardInterrupt that has passed through `exec` of a text, as modules with dataclasses do when they are
    # imported, leaves a flag set, whoever catches it: `python -m` would end by SIGINT. Another `exec` clears the flag.
    exec("")
