# SPDX-License-Identifier: GPL-3.0-or-later
"""Listen on a port and serve the page until a signal comes."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from fl_app.config import ConfigError
from oac_blocks.errors import OacError

DEFAULT_PORT = 7800
LOOPBACK = "127.0.0.1"
LEAST_TOKEN = 8  # characters of a token
_END_SECONDS = 3  # seconds that open streams may take to end


class PageError(OacError, RuntimeError):
    """The page cannot be served; the message says why and what to do."""


@dataclass(frozen=True)
class Address:
    """Say where the page is, and what it takes to see it."""

    host: str
    port: int
    token: str | None = None

    def url(self, run: str = "") -> str:
        """Return what to open in a browser; ``run`` names the run to show."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        host = f"[{host}]" if ":" in host else host
        token = f"?token={self.token}" if self.token else ""
        return f"http://{host}:{self.port}/{token}" + (f"#run={quote(run)}" if run else "")


def check_packages() -> None:
    """Raise ConfigError if a package that the page needs is missing."""
    missing = [name for name in ("starlette", "uvicorn", "plotly") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the live page needs {', '.join(missing)}: pip install 'gr-oac[web]'")


def listen(host: str = LOOPBACK, port: int | None = None, token: str | None = None) -> tuple[socket.socket, Address]:
    """Take a port, and make a token where one is needed.

    Parameters
    ----------
    host
        Address of this machine to listen on. Any but loopback needs a token: it is made if none is given.
    port
        0 takes any free port, and so does None if `DEFAULT_PORT` is taken.
    token
        Word that every request must carry.
    """
    from fl_app.runs.dashboard.access import is_loopback

    if token is None and not is_loopback(host):
        token = secrets.token_hex(16)
    if token is not None and not (len(token) >= LEAST_TOKEN and token.isascii() and token.isalnum()):
        shown = token if len(token) < LEAST_TOKEN else "this one"
        raise ConfigError(f"--token {shown}: it must have {LEAST_TOKEN} or more letters and digits, and nothing else")
    for wanted in [port] if port is not None else [DEFAULT_PORT, 0]:
        try:
            taken = socket.create_server((host, wanted), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
            return taken, Address(host, taken.getsockname()[1], token)
        except OSError as error:
            why = error.strerror or str(error)
    raise PageError(f"cannot listen on {host} port {port}: {why}; choose another --port, or 0 for any free one")


def serve(root: Path, listening: socket.socket, address: Address) -> None:
    """Serve the runs below a folder, or one run, until SIGINT or SIGTERM; KeyboardInterrupt for SIGINT."""
    import uvicorn

    from fl_app.runs.dashboard.access import Access
    from fl_app.runs.dashboard.app import make_app
    from fl_app.runs.dashboard.stream import Stream

    stream = Stream(root.resolve(), lambda: server.should_exit)
    app = make_app(stream, Access(address.token, address.port))
    server = uvicorn.Server(
        uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=_END_SECONDS
        )
    )
    server.run(sockets=[listening])
