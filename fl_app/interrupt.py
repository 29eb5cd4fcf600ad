# SPDX-License-Identifier: GPL-3.0-or-later
"""Ctrl-C asks a run to stop after its round; a second one stops it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 130  # as a shell reports a program that Ctrl-C ended


@contextmanager
def stop_on_signal(tell: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """While inside, SIGINT and SIGTERM make the yielded function return True. Elsewhere than in the main thread,
    where Python delivers no signals, it returns False."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        tell("finishing this round; once more stops at once")

    earlier = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
