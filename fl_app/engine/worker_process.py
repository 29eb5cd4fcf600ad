# SPDX-License-Identifier: GPL-3.0-or-later
"""Start worker processes from a fork server that has imported torch, talk to them by a pipe, and end them.

A worker is not forked from the main process, as a fork copies torch's threads in an arbitrary state. This module
imports no torch: the main process may do without it.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from typing import Any

from fl_app.processes.interrupt import SIGNALS, blocked_for_children
from oac_blocks.errors import OacError

CLOSE_SECONDS = 5.0  # seconds that a process may take to end before it is killed
STARTED = "started"  # kind of a worker's first message


class WorkerError(OacError, RuntimeError):
    """A worker process failed; the message says which process, how and during which work."""


def ignore_signals() -> None:
    """Ignore Ctrl-C and SIGTERM in a worker; a fork server that another program started does not block them."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def start_fork_server() -> ForkServerContext:
    """Start the process that workers are forked from, unless it runs, and return the context to start them in.

    It imports torch. A program that imports torch itself saves time if it calls this first: both then import at once.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fl_app.engine.worker_start"])
    # Ctrl-C and a batch system's SIGTERM reach every process of the run. The main process finishes the round and needs
    # the others for that. So neither signal may end a worker, not even while the worker imports torch.
    resource_tracker.ensure_running()  # a later start would unblock the signals before the fork server starts
    with blocked_for_children():
        forkserver.ensure_running()
    return context


class WorkerProcess:
    """One process and this end of its pipe. Its first message must be of the kind STARTED.

    Parameters
    ----------
    serve
        Function of a module that the process runs: `serve(connection, *arguments)`. It ends when the pipe is closed.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        context = start_fork_server()
        self.connection, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, *arguments), daemon=True)
        self.has_started = False  # True once the process has sent STARTED
        self.process.start()
        there.close()

    def end(self) -> None:
        """Wait until the process ends, since its pipe is closed; kill it if it takes too long."""
        self.process.join(CLOSE_SECONDS)
        if self.process.is_alive():
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def death(self, what: str, instead: str = "set [run] workers = 0") -> WorkerError:
        """Return the error that says how this process ended while it did `what`.

        If the process could not even start, the error says what a script must look like, or what to do `instead`.
        """
        self.process.join(CLOSE_SECONDS)
        code = self.process.exitcode
        is_killed = code is not None and code < 0
        how = f"was killed by {signal.Signals(-(code or 0)).name}" if is_killed else f"ended with code {code}"
        script = getattr(sys.modules["__main__"], "__file__", None)
        if script is not None and not self._has_started():
            return WorkerError(
                f"worker process {self.process.pid} {how} while it imported {script}. A script that trains with "
                'workers must do so below the line `if __name__ == "__main__":`, since each worker imports the script '
                f"first; or {instead}"
            )
        hint = " (the system may have run out of memory)" if code == -signal.SIGKILL else ""
        return WorkerError(f"worker process {self.process.pid} {how}{hint} while {what}")

    def _has_started(self) -> bool:
        """Say whether the process has started; its message may still be unread."""
        try:
            return self.has_started or (self.connection.poll() and self.connection.recv()[0] == STARTED)
        except (EOFError, OSError):
            return False
