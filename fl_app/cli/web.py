# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the command `dashboard`, and what --web of other commands does: serve the live page beside a run."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fl_app.cli.console import clear_errors, say
from fl_app.config import ConfigError
from fl_app.processes.child import ends_with_parent

_END_SECONDS = 5.0  # seconds that the page's process may take to end

Web = Annotated[bool, typer.Option("--web", help="Serve a live page of the run on this machine.")]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Port of the live page; 0: any free one. Default: 7800, or any if it is taken."
    ),
]


def dashboard(
    runs: Annotated[
        Path, typer.Argument(metavar="[RUN | runs/]", help="The folder of a run, or a folder with runs in it.")
    ] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but loopback needs a token, which is made if none is given.")
    ] = "127.0.0.1",
    port: Port = None,
    token: Annotated[
        str | None, typer.Option(help="Letters and digits that a browser must know.", envvar="GR_OAC_TOKEN")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in a browser.")] = False,
    socket_number: Annotated[int | None, typer.Option("--socket", hidden=True)] = None,
) -> None:
    """Serve a page that follows runs as they go, opens finished ones and compares several.

    Example: fl_app dashboard

    Example: fl_app dashboard runs/my-run --port 8000

    Example: fl_app dashboard --host 0.0.0.0 --token correcthorse7
    """
    with clear_errors():
        from fl_app.runs.dashboard.serve import Address, check_packages, listen, serve

        check_packages()
        if runs.exists() and not runs.is_dir():
            raise ConfigError(f"{runs} is a file: name the folder of a run, or a folder with runs in it")
        if socket_number is not None:  # a command with --web has told where the page is
            listening = socket.socket(fileno=socket_number)
            address = Address(host, listening.getsockname()[1], token)
        else:
            listening, address = listen(host, port, token)
            waits = "" if runs.exists() else " (not there yet; the page waits for it)"
            say(f"live page of {runs}{waits}: {address.url()}  (Ctrl-C ends it)")
        if browser:
            webbrowser.open(address.url())
        serve(runs, listening, address)


@contextlib.contextmanager
def live_page(wanted: bool, port: int | None, runs: Path, run: str = "") -> Iterator[None]:
    """Serve the page of a folder in a process of its own while something else goes on.

    The process cannot slow a run by more than its share of a core, and its end changes nothing for the run. It ends
    with this process, whatever ends this process.

    Parameters
    ----------
    wanted
        False does nothing: without --web.
    port
        Port of the page, as in `fl_app.runs.dashboard.serve.listen`.
    runs
        The folder of a run, or a folder with runs in it; it may be made later.
    run
        Name of the run in this folder that the address opens.
    """
    if not wanted:
        if port is not None:
            raise ConfigError(f"--port {port} is the port of the live page: give --web too")
        yield
        return
    from fl_app.runs.dashboard.serve import check_packages, listen

    check_packages()
    # The port is taken here: it is known at once, and an error comes before the run begins.
    listening, address = listen(port=port)
    with listening:
        number = listening.fileno()
        page = subprocess.Popen(
            [sys.executable, "-m", "fl_app", "dashboard", str(runs), "--socket", str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[number],
            preexec_fn=ends_with_parent(),
            process_group=0,  # the terminal's Ctrl-C is for the run, which ends the page in its turn
        )
    say(f"live page: {address.url(run)}")
    try:
        yield
    finally:
        page.terminate()
        try:
            page.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            page.kill()
            page.wait()
