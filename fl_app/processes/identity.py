# SPDX-License-Identifier: GPL-3.0-or-later
"""Name a process such that another process can tell later whether it still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any


def identity() -> dict[str, Any]:
    """Return the identity of this process as JSON values: machine, number and the kernel's start time."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _start_time(os.getpid())}


def is_alive(who: dict[str, Any]) -> bool | None:
    """Say whether the process of an `identity` runs; None if this cannot be known here, on another machine say."""
    pid, started = who.get("pid"), who.get("started")
    if who.get("host") != socket.gethostname() or not isinstance(pid, int) or not isinstance(started, int):
        return None
    return _start_time(pid) == started  # a later process may have the same number, but not the same start time


def _start_time(pid: int) -> int | None:
    """Return when a process was started, in ticks since the machine started; None if it is gone, or without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return None
    return None if fields[0] == "Z" else int(fields[19])
