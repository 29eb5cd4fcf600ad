# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether an endpoint stays on this machine; only there may a socket do without keys."""

from __future__ import annotations

import ipaddress
import re

from fl_app.config import ConfigError

_TCP = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d+|\*)")


def is_local(endpoint: str) -> bool:
    """Return True for ipc, inproc and the loopback interface; raise ConfigError if ZeroMQ cannot use the endpoint."""
    if re.fullmatch(r"(ipc|inproc)://.+", endpoint):
        return True
    match = _TCP.fullmatch(endpoint)
    if match is None:
        raise ConfigError(f"{endpoint!r} is not an endpoint: write tcp://HOST:PORT or ipc://PATH")
    host = match["host"].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def on_loopback(endpoint: str) -> str:
    """Return the same port on 127.0.0.1."""
    match = _TCP.fullmatch(endpoint)
    assert match is not None
    return f"tcp://127.0.0.1:{match['port']}"


def reachable(bind: str) -> str:
    """Return the endpoint by which a client on the same machine reaches a server that listens at ``bind``."""
    for everywhere in ("tcp://0.0.0.0:", "tcp://*:"):
        if bind.startswith(everywhere):
            return f"tcp://127.0.0.1:{bind.removeprefix(everywhere)}"
    return bind
