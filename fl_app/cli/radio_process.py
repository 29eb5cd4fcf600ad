# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the flowgraph of `fl_app radio` as a child process, and start it again after its radio was unplugged.

GNU Radio's blocks for a Pluto throw in their own thread when the radio is unplugged, and no code in that process can
catch the exception. So this module gives up the process and starts a new one that waits until the radio answers.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from fl_app.cli.console import say
from fl_app.processes.child import ends_with_parent
from oac_blocks.bench.flows.endpoints import READY, STREAMS_ENDED, WAIT_FOR_RADIO, flowgraph_environment
from oac_blocks.errors import OacError
from oac_blocks.stop_signal import StopSignal

if TYPE_CHECKING:
    from fl_app.link.relay import Relay

READY_SECONDS = 60.0  # seconds from the start of the process until its flowgraph must run
LOOK_SECONDS = 0.2  # seconds between two looks at the process
END_SECONDS = 10.0  # seconds from SIGTERM until SIGKILL
# Seconds before a new start. The pause doubles while flowgraphs end within YOUNG_SECONDS of their start.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0
YOUNG_SECONDS = 30.0  # seconds after which a flowgraph counts as having run well


class RadioCommandError(OacError, RuntimeError):
    """The flowgraph ended by itself; the message says how."""


class _Flowgraph:
    """Run one process and read its output."""

    def __init__(self, command: Sequence[str], is_first: bool) -> None:
        self._started = time.monotonic()
        self._is_first = is_first
        self.is_ready = threading.Event()
        self.last_words = ""
        self.process = subprocess.Popen(
            command,
            env=flowgraph_environment(),
            process_group=0,
            preexec_fn=ends_with_parent(signal.SIGTERM),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_output, self._read_errors)]
        for reader in self._readers:
            reader.start()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def end(self) -> None:
        """Ask the process to end, wait for it, and kill it if it does not end in time."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for reader in self._readers:
            reader.join(END_SECONDS)

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == READY:
                self.is_ready.set()
                if not self._is_first:
                    continue
            typer.echo(line, nl=False)

    def _read_errors(self) -> None:
        """Pass the lines on to stderr, except for the last words of a flowgraph: they become part of a sentence."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            text = line.strip()
            if text.startswith("what():") or text == STREAMS_ENDED:
                self.last_words = text.removeprefix("what():").strip()
            elif text and not text.startswith("terminate called"):
                typer.echo(line, nl=False, err=True)


def run_flowgraph(
    ended: StopSignal,
    relays: Sequence[Relay],
    service: str,
    arguments: Sequence[str | dict[str, Any]],
    radio: str = "",
) -> None:
    """Run a module of ``oac_blocks.bench.flows`` until a signal comes or the flowgraph ends.

    Parameters
    ----------
    ended : StopSignal
        Signal that is set when the command is asked to end.
    relays : sequence of Relay
        Relays to other machines; without them the flowgraph is of no use.
    service : str
        Name of the module.
    arguments : sequence of str or dict
        Arguments of the module; a dictionary is passed as JSON.
    radio : str
        Name of the radio that the flowgraph needs. A flowgraph that has run and then ends is started again and waits
        for the radio without a time limit. If empty, the end of the flowgraph is an error.

    Raises
    ------
    RadioCommandError
        If the flowgraph does not start, or ends and needs no radio.
    """
    texts = [argument if isinstance(argument, str) else json.dumps(argument) for argument in arguments]
    command = [sys.executable, "-m", f"oac_blocks.bench.flows.{service}", *texts]
    flowgraph = _live(command, ended, relays, is_first=True)
    pause_seconds = FIRST_PAUSE_SECONDS
    while flowgraph.process.returncode and not ended.is_set():
        code, why = flowgraph.process.returncode, flowgraph.last_words
        if not radio or not flowgraph.is_ready.is_set():
            raise RadioCommandError(f"the flowgraph ended (exit status {code})" + (f": {why}" if why else ""))
        say(f"{radio} is gone ({why or f'the flowgraph ended with exit status {code}'}); looking for it")
        pause_seconds = FIRST_PAUSE_SECONDS if flowgraph.seconds > YOUNG_SECONDS else pause_seconds
        ended.wait(pause_seconds)
        pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        if not ended.is_set():
            flowgraph = _live([*command, WAIT_FOR_RADIO], ended, relays, is_first=False, radio=radio)


def _live(
    command: Sequence[str], ended: StopSignal, relays: Sequence[Relay], is_first: bool, radio: str = ""
) -> _Flowgraph:
    """Start the flowgraph and return it after it has ended, by itself or because of a signal."""
    flowgraph = _Flowgraph(command, is_first)
    was_ready = is_late = False
    while flowgraph.process.poll() is None and all(relay.is_alive for relay in relays) and not ended.wait(LOOK_SECONDS):
        if not was_ready and flowgraph.is_ready.is_set():
            was_ready = True
            if not is_first:
                say(f"{radio} is back")
        is_late = is_first and not was_ready and flowgraph.seconds > READY_SECONDS
        if is_late:
            break
    flowgraph.end()
    if is_late:
        hint = "is its radio held by another program?"
        raise RadioCommandError(f"the flowgraph was not ready within {READY_SECONDS:g} s; {hint}")
    if not all(relay.is_alive for relay in relays):
        raise RadioCommandError("the relay to the other flowgraphs ended")
    return flowgraph
