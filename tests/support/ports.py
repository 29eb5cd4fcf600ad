# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserve TCP ports that no other process takes before the test listens on them.

The kernel gives ports of its own range to any process that asks for any port, so that a free port of that range may be
taken a moment later. The ports here lie below that range, and a file lock keeps other test processes away from them for
as long as this process lives.
"""

import fcntl
import itertools
import os
import socket
import tempfile
from pathlib import Path

_BLOCK = 50  # number of ports under one lock
_FIRST, _STOP = 20_000, 32_000
_locks = []  # open files: a lock ends when its file is closed
_reserved = iter(())


def free_ports(count):
    """Return the first of ``count`` consecutive free ports (at most 50)."""
    global _reserved
    if not 1 <= count <= _BLOCK:
        raise ValueError(f"count must be 1 to {_BLOCK}, got {count}")
    run = list(itertools.islice(_reserved, count))
    while len(run) < count or not all(map(_is_free, run)):
        if len(run) < count:
            _reserved = iter(_next_block())
        run = list(itertools.islice(_reserved, count))
    return run[0]


def free_port():
    """Return one free port."""
    return free_ports(1)


def free_address():
    """Return a free address for ZeroMQ, such as ``tcp://127.0.0.1:20017``."""
    return f"tcp://127.0.0.1:{free_port()}"


def _next_block():
    folder = Path(tempfile.gettempdir()) / f"gr-oac-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for first in range(_FIRST, min(_STOP, _first_of_the_kernel()) - _BLOCK + 1, _BLOCK):
        file = (folder / str(first)).open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        _locks.append(file)
        return range(first, first + _BLOCK)
    raise AssertionError(f"all ports from {_FIRST} to {_STOP} are taken by other test processes")


def _first_of_the_kernel():
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that just ended is no obstacle
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
