# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def ends_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """To be called in the new process, before its program: the kernel sends it this signal when we are gone."""
    parent = os.getpid()

    def in_child() -> None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # gone already
            os._exit(1)

    return in_child
