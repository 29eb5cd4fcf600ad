# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process needs to know that starts a flowgraph and talks to it: its sockets and its environment.

Imports no GNU Radio: the application at the other end may live without it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_LONGEST_PATH = 100  # what a Unix socket's address holds, less a margin


@dataclass(frozen=True)
class Endpoints:
    payload: str  # the application pushes votes here
    next: str  # and pulls from the others
    soft_votes: str
    report: str

    @classmethod
    def in_folder(cls, folder: Path) -> Endpoints:
        names = ("payload", "next", "soft_votes", "report")
        longest = max(len(str(folder / name)) for name in names)
        if longest > _LONGEST_PATH:
            raise ValueError(f"folder must have a path shorter than {_LONGEST_PATH - 11} characters, got {folder}")
        return cls(*(f"ipc://{folder / name}" for name in names))


def bench_endpoints(host: str, port: int, client: int | None) -> dict[str, str]:
    """Of one Pluto's flowgraph: the server's four ports from ``port`` on, behind them one for each client's votes."""
    at = [f"tcp://{host}:{port + i}" for i in range(4)]
    if client is None:
        return dict(zip(("status", "orders", "next", "soft_votes"), at, strict=True))
    return {"status": at[0], "orders": at[1], "payload": f"tcp://127.0.0.1:{port + 4 + client}"}


def flowgraph_environment() -> dict[str, str]:
    """Every block has a thread of its own; those that a BLAS adds for small matrices only take turns with them.

    Fitting 50 clients took 142 ms with them and 20 ms without, on two busy cores.
    """
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ}
