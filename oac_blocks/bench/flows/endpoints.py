# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process needs to know that starts a flowgraph and talks to it: its sockets, its words and its environment.

Imports no GNU Radio: the application at the other end may live without it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

READY = "ready"  # what a flowgraph's process prints when it runs
STREAMS_ENDED = "the flowgraph's streams have ended"  # and says last when its radio is gone
WAIT_FOR_RADIO = "--wait-for-radio"  # its option: wait until the radio answers
RECORD = "--record="  # in front of the recorder's settings, as JSON
_LONGEST_PATH = 100  # what a Unix socket's address holds, less a margin
BENCH_PORT = 7790  # the first port of a bench, unless another one is named
BETWEEN_FLOWGRAPHS = ("status", "orders")
_FOR_THE_APPLICATION = ("next", "soft_votes", "ballot", "report")
_LOOPBACK = "127.0.0.1"
_LAST_PORT = 65_000  # there are as many behind it as a bench has sockets


@dataclass(frozen=True)
class Endpoints:
    """Of the server's flowgraph, or of the loopback, as an application sees it."""

    next: str  # the application reads these three
    soft_votes: str
    report: str
    ballot: str  # and pushes to these
    payload: str = ""  # the loopback takes all clients' votes here

    @classmethod
    def in_folder(cls, folder: Path) -> Endpoints:
        names = ("next", "soft_votes", "report", "ballot", "payload")
        longest = max(len(str(folder / name)) for name in names)
        if longest > _LONGEST_PATH:
            raise ValueError(f"folder must have a path shorter than {_LONGEST_PATH - 11} characters, got {folder}")
        return cls(*(f"ipc://{folder / name}" for name in names))

    @classmethod
    def at(cls, address: str) -> Endpoints:
        """Those of a bench by its address: ``tcp://127.0.0.1:7790``, or ``ipc://FOLDER`` for a loopback."""
        if address.startswith("ipc://"):
            return cls.in_folder(Path(address.removeprefix("ipc://")))
        host, port = _host_and_port(address)
        server = bench_endpoints(host, port, None)
        return cls(**{name: server[name] for name in _FOR_THE_APPLICATION})


def payload_endpoint(address: str, client: int) -> str:
    """Where client ``client`` of the bench at this address pushes its votes."""
    if address.startswith("ipc://"):
        return Endpoints.at(address).payload
    return bench_endpoints(*_host_and_port(address), client)["payload"]


def client_folder(bench: Path, client: int) -> Path:
    """Return the folder of this client's own sockets in a bench whose flowgraphs all use one folder."""
    return bench / f"client-{client}"


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or not colon or not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise ValueError(f"a bench's address must be tcp://HOST:PORT or ipc://FOLDER, got {address!r}")
    return host, int(port)


def bench_endpoints(host: str, port: int, client: int | None) -> dict[str, str]:
    """Of one Pluto's flowgraph: the server's six ports from ``port`` on, behind them one for each client's votes.

    An application's flowgraph is beside it, so these sockets are on this machine; flowgraphs may be apart.
    """
    outside = {name: f"tcp://{host}:{port + i}" for i, name in enumerate(BETWEEN_FLOWGRAPHS)}
    first = port + len(outside)
    inside = {name: f"tcp://{_LOOPBACK}:{first + i}" for i, name in enumerate(_FOR_THE_APPLICATION)}
    if client is None:
        return outside | inside
    return {**outside, "payload": f"tcp://{_LOOPBACK}:{first + len(inside) + client}"}


def flowgraph_environment() -> dict[str, str]:
    """Every block has a thread of its own; those that a BLAS adds for small matrices only take turns with them.

    Fitting 50 clients took 142 ms with them and 20 ms without, on two busy cores.
    """
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ}
