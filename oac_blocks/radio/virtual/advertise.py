# SPDX-License-Identifier: GPL-3.0-or-later
"""Make virtual radios known to libiio's scans: Avahi announces their names and addresses, if it runs.

The names are those that Plutos give themselves: ``pluto.local``, ``pluto-2.local`` and so on.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from oac_blocks.radio.virtual.addresses import Address

_PROGRAM = "avahi-publish"
_STOP_SECONDS = 5.0
_SIGNAL_AT_PARENTS_DEATH = 1  # option of prctl


@contextlib.contextmanager
def advertised(addresses: Sequence[Address]) -> Iterator[bool]:
    """Advertise the radios while the ``with`` block runs, and yield whether there is a program to do so.

    Nothing fails where Avahi is not installed or its daemon does not run.
    """
    program = shutil.which(_PROGRAM)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, (host, port) in enumerate(addresses if program else [], 1):
            name = "pluto.local" if number == 1 else f"pluto-{number}.local"
            own = ["--host", name] if host.startswith("127.") else []
            if own:
                running.append(_start(program or "", "--address", "--no-reverse", name, host))
            running.append(_start(program or "", "--service", *own, f"virtual Pluto {number}", "_iio._tcp", str(port)))
        yield program is not None
    finally:
        for process in running:
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)


def _start(*command: str) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, preexec_fn=_end_with_parent)


def _end_with_parent() -> None:
    """End the announcing program together with this process, even if SIGKILL ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGTERM)
