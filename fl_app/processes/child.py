# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a child process end with its parent, whatever ends the parent."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def ends_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return a function for the child to call before its program: the kernel then signals it when the parent ends."""
    parent = os.getpid()

    def in_child() -> None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent has ended already
            os._exit(1)

    return in_child
