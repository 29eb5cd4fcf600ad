# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole bench on one machine: server, clients and flowgraphs as processes, one screen, and nothing left behind.

The processes talk over a Unix socket in a folder that only this user can enter. They die with this process, however it
ends: Linux sends them a signal (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rich.console import Console
from rich.live import Live

from fl_app.cli.console import say, show_result
from fl_app.cli.screen import Screen
from fl_app.config import Settings
from fl_app.link.trust import import_strings_of
from fl_app.processes.child import ends_with_parent
from fl_app.processes.interrupt import EXIT_CODE, stop_on_signal
from fl_app.processes.private_folder import PrivateFolder
from fl_app.runs.run_folder import RunFolder
from oac_blocks.bench.flows.endpoints import client_folder
from oac_blocks.errors import OacError

COMMAND = [sys.executable, "-m", "fl_app"]
LOOK_SECONDS = 0.1
LEAVE_SECONDS = 5.0  # seconds in which clients may end by themselves after the server has ended
KILL_SECONDS = 3.0  # after SIGTERM
RADIO_SECONDS = 15.0  # likewise, for a flowgraph that leaves its radio as it was found
LOG_LINES = 8
STARTS_AGAIN, STARTS_SECONDS = 5, 600.0  # how often in how long a process that ended is started again
SERVER, RADIO, CLIENT = "server", "radio", "client-"


class UpError(OacError, RuntimeError):
    """A process of the bench ended that should not have; the message says which, and what it said last."""


class BenchProcesses:
    """Processes that end with this one. Use as a context."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[str, list[str]] = {}
        self._started_again: dict[str, list[float]] = {}
        self.given_up: set[str] = set()  # those that ended too often to be started again
        self._missing = [folder for folder in (logs, *logs.parents) if not folder.exists()]
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, arguments: list[str], stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        with self.log_of(name).open("ab") as log:
            # A group of its own: the terminal's Ctrl-C reaches us alone, and we take things down in order.
            process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=log,
                process_group=0,
                preexec_fn=ends_with_parent(),
            )
        self.processes[name], self._arguments[name] = process, arguments
        return process

    def start_again(self, name: str) -> bool:
        """False, and nothing is started, if it has ended too often of late."""
        now = time.monotonic()
        recent = [then for then in self._started_again.get(name, []) if now - then < STARTS_SECONDS]
        if len(recent) == STARTS_AGAIN:
            self.given_up.add(name)
            return False
        self._started_again[name] = [*recent, now]
        self.start(name, self._arguments[name])
        return True

    def stop_radios(self) -> None:
        """Ask the flowgraphs to end."""
        for name in filter(is_radio, self.running()):
            self.processes[name].terminate()

    def log_of(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def last_words(self, name: str) -> str:
        lines = self.log_of(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"{self.log_of(name).name} ends:", *lines[-LOG_LINES:]])

    def running(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.poll() is None]

    def ended(self) -> list[str]:
        """Those that are to be looked after."""
        gone = [name for name, process in self.processes.items() if process.poll() is not None]
        return [name for name in gone if name not in self.given_up]

    def drop_logs(self) -> None:
        """Remove the logs of a bench that never played a round, and the folders that were made for them."""
        shutil.rmtree(self._logs, ignore_errors=True)
        for folder in self._missing[1:]:
            with contextlib.suppress(OSError):  # there is something else in it
                folder.rmdir()

    def take_down(self, patience_seconds: float) -> None:
        """Wait for all to end; those that do not are asked, then killed."""
        for number, seconds in ((None, patience_seconds), (signal.SIGTERM, KILL_SECONDS), (signal.SIGKILL, None)):
            for name in self.running():
                if number is not None:
                    self.processes[name].send_signal(number)
            started = time.monotonic()
            for name, process in self.processes.items():
                most = RADIO_SECONDS if number == signal.SIGTERM and is_radio(name) else seconds
                left = None if most is None else max(0.0, started + most - time.monotonic())
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(left)
        for process in self.processes.values():  # what they started is in their groups
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def __enter__(self) -> BenchProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.take_down(0.0)


def is_radio(name: str) -> bool:
    """Is the process of this name a flowgraph?"""
    return name.startswith(RADIO)


def bring_up(settings: Settings, run: RunFolder, as_json: bool, no_training: bool) -> int:
    """Run the bench to its end; the exit code."""
    screen = Screen(settings, str(run.path))
    with stop_on_signal(lambda text: screen.note(text)) as should_stop:
        should_stop.finish_rounds()  # or rather, the server does: it knows whether there is anything to keep
        try:
            code = _run_bench(settings, run, no_training, screen, should_stop)
        except KeyboardInterrupt:
            code = EXIT_CODE
        if code and should_stop():
            again = shlex.join(["fl_app", "up", "--resume", str(run.path)])
            nothing = "stopped before the first round was over; nothing was kept"
            say(f"stopped. To go on: {again}" if run.exists else nothing)
            return EXIT_CODE
    from fl_app.runs.report import result_table

    result = run.read_result()
    assert result is not None  # a server that ends without an error has written it
    show_result(as_json, result, result_table(result), f"{run.path}/report.html, curves.png, logs/")
    return 0


def _run_bench(
    settings: Settings, run: RunFolder, no_training: bool, screen: Screen, should_stop: Callable[[], bool]
) -> int:
    """Start all processes, watch them, and take them down; the server's exit code."""
    with PrivateFolder("fl_app-") as place, BenchProcesses(run.path / "logs") as bench:
        try:
            server = _start_all(bench, settings, run, place, no_training)
            with _live(Console(stderr=True), screen) as refresh:
                _watch(bench, server, screen, should_stop, refresh)
            code = server.wait()
            bench.stop_radios()
            # Without the server's word that the run is over clients would wait for it to come back.
            bench.take_down(LEAVE_SECONDS if code == 0 else 0.0)
            if code and not should_stop():
                raise UpError(f"the server ended with code {code}; {bench.last_words(SERVER)}")
        finally:
            bench.take_down(0.0)
            if not run.exists:
                bench.drop_logs()
    return code


def _start_all(
    bench: BenchProcesses, settings: Settings, run: RunFolder, place: Path, no_training: bool
) -> subprocess.Popen[bytes]:
    """The server, its clients, and the flowgraph if there is to be one; returns the server."""
    endpoint = f"ipc://{place}/server"
    if run.exists:
        config, arguments = run.config, ["server", "--resume", str(run.path)]
    else:
        config = place / "config.toml"
        config.write_text(settings.toml(), encoding="utf-8")
        arguments = ["server", str(config), "--out", str(run.path)]
    arguments += ["--bind", endpoint, "--status-lines"]
    radios = _start_radios(bench, settings, config, place)
    if radios:
        arguments += ["--radio", f"ipc://{place}", "--audit-votes"]
    elif settings.link.radio:
        radios = [settings.link.radio] * settings.clients.n
    server = bench.start(SERVER, arguments, subprocess.PIPE)
    trusted = [word for text in import_strings_of(settings) for word in ("--trust", text)]  # the user's own config
    for number in range(settings.clients.n):
        own = ["--radio", radios[number]] if radios else []
        own += ["--no-training"] if no_training else []
        bench.start(f"{CLIENT}{number}", ["client", "--server", endpoint, "--id", str(number), *own, *trusted])
    return server


def _start_radios(bench: BenchProcesses, settings: Settings, config: Path, place: Path) -> list[str]:
    """Start the flowgraphs, if there are to be any, and return where each client gives its votes to its own."""
    n = settings.clients.n
    if settings.link.radio:  # they run already
        return []
    if settings.has_flowgraphs:
        _look_for_radios(settings)
        bench.start(f"{RADIO}-server", ["radio", str(config), "--bench", str(place)])
        for number in range(n):
            bench.start(f"{RADIO}-{number}", ["radio", str(config), "--client", str(number), "--bench", str(place)])
        return [f"ipc://{client_folder(place, number)}" for number in range(n)]
    if settings.air.name == "gnuradio" and not settings.air.scheme.coherent:
        bench.start(RADIO, ["radio", str(config), "--loopback", str(n), "--folder", str(place)])
        return [f"ipc://{place}"] * n
    return []


def _look_for_radios(settings: Settings) -> None:
    """Refuse a bench whose radios are not all there at the start. A radio that is lost later is waited for."""
    from oac_blocks.bench.threads.radios import RadioPlan
    from oac_blocks.radio.base import RadioError

    try:
        RadioPlan.of(settings.radios, settings.air.sample_rate_hz).probe()
    except (RadioError, ValueError) as error:
        raise UpError(str(error)) from None


def _watch(
    bench: BenchProcesses,
    server: subprocess.Popen[bytes],
    screen: Screen,
    should_stop: Callable[[], bool],
    refresh: Callable[[], None],
) -> None:
    """Until the server has ended: show what it says, pass on Ctrl-C, notice clients that end early."""
    assert server.stdout is not None
    asked = False
    with selectors.DefaultSelector() as selector:
        selector.register(server.stdout, selectors.EVENT_READ)
        lines = _lines(server.stdout)
        while server.poll() is None:
            if selector.select(LOOK_SECONDS):
                for event in next(lines):
                    screen.take(event)
            refresh()
            if should_stop() and not asked:
                asked = True
                server.send_signal(signal.SIGINT)
            if screen.result is None:
                _look_after(bench, screen, asked)
        os.set_blocking(server.stdout.fileno(), True)
        for event in next(lines):
            screen.take(event)
        refresh()


def _look_after(bench: BenchProcesses, screen: Screen, asked: bool) -> None:
    """Start again what ended before the run was over. A client that keeps ending stays away, and the others go on."""
    for name in bench.ended():
        code = bench.processes[name].returncode
        if name == SERVER or asked or (code == 0 and not is_radio(name)):  # 0: told by the server that the run is over
            continue
        what = f"client {name.removeprefix(CLIENT)}"
        if is_radio(name):
            what = "the flowgraph" if name == RADIO else f"the flowgraph {name}"
        if bench.start_again(name):
            screen.note(f"{what} ended with code {code}; it is started again")
        elif is_radio(name):
            raise UpError(f"{what} has ended {1 + STARTS_AGAIN} times; {bench.last_words(name)}")
        else:
            screen.ended(int(name.removeprefix(CLIENT)), code)
    clients = {name for name in bench.processes if name.startswith(CLIENT)}
    if clients <= bench.given_up:
        raise UpError(f"all clients have ended {1 + STARTS_AGAIN} times; {bench.last_words(f'{CLIENT}0')}")


def _lines(stream: IO[bytes]) -> Iterator[list[dict[str, Any]]]:
    """The JSON objects that have come whole since the last look."""
    os.set_blocking(stream.fileno(), False)
    rest = b""
    while True:
        rest += os.read(stream.fileno(), 1 << 20)
        *whole, rest = rest.split(b"\n")
        events = []
        for line in whole:
            with contextlib.suppress(json.JSONDecodeError):
                event = json.loads(line)
                if isinstance(event, dict):
                    events.append(event)
        yield events


@contextlib.contextmanager
def _live(console: Console, screen: Screen) -> Iterator[Callable[[], None]]:
    """The screen on a terminal; elsewhere a line for each round that was evaluated."""
    if not console.is_terminal:

        def print_lines() -> None:
            for line in screen.new_lines():
                console.print(line, highlight=False, soft_wrap=True)

        yield print_lines
        return
    with Live(screen.render(), console=console, auto_refresh=False) as live:
        yield lambda: live.update(screen.render(), refresh=True)
