# SPDX-License-Identifier: GPL-3.0-or-later
"""Start `fl_app` quickly in a page: as a fork of a process that has imported torch.

`Preloaded(folder)` starts that process and makes `folder/fl_app`, which stands first on the page's PATH. This small
program hands its words, folder, variables and open files to the process, which forks. The fork runs the installed
script `fl_app`, as a shell would, in the caller's process group: a signal to the group reaches it. The small program
then ends as the fork did, with its exit status or by its signal.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

MODULES = ("fl_app.cli.app", "fl_app.runs.prepare", "fl_app.runs.report", "fl_app.link.server")
_LONGEST_REQUEST = 1 << 20  # bytes of words and variables
# It imports as little as it can (-S, -E), since it is started for every command.
_CALLER = """#!{python} -SE
import json, os, signal, socket, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)  # the fork is in this process group and has the signal as well
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect({address!r})
request = [sys.argv[1:], os.getcwd(), dict(os.environ), os.getpgrp()]
line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {longest})
socket.send_fds(line, [json.dumps(request).encode()], [0, 1, 2])
status = int(line.recv(64) or b"70")  # 70: the process to fork from is gone
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


class Preloaded:
    """The process to fork from, and the folder with the program that asks it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir()
        address, caller = folder / "socket", folder / "fl_app"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(address))
        listener.listen(64)
        python = os.path.realpath(sys.executable)  # not the venv's, which would look for its packages
        caller.write_text(_CALLER.format(python=python, address=str(address), longest=_LONGEST_REQUEST))
        caller.chmod(0o755)
        script = shutil.which("fl_app", path=environment["PATH"])
        command = [sys.executable, "-m", "tests.docs.preloaded", str(listener.fileno()), str(script)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL
        )
        listener.close()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def serve(listener: socket.socket) -> list[str]:
    """Fork for each request, and tell each caller how its fork ended. Return the caller's words in each fork.

    There is one thread, so that forks are safe.
    """
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj is not listener:
                events.unregister(key.fileobj)
                os.close(key.fd)
                _tell_end(*key.data)
                continue
            line, _ = listener.accept()
            request, files, _, _ = socket.recv_fds(line, _LONGEST_REQUEST, 3)
            pid = os.fork()
            if pid == 0:
                words, *rest = json.loads(request)
                _become(files, *rest)
                return words
            for one in files:
                os.close(one)
            events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, line))


def _tell_end(pid: int, line: socket.socket) -> None:
    _, status = os.waitpid(pid, 0)
    with line, contextlib.suppress(BrokenPipeError):  # a killed caller does not want to know
        line.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(files: list[int], folder: str, variables: dict[str, str], group: int) -> None:
    """Take over the caller's files, folder, variables and process group."""
    os.setpgid(0, group)
    for number, one in enumerate(files):
        os.dup2(one, number)
        os.close(one)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)


def main(descriptor: str, script: str) -> None:
    sys.argv = [script, *serve(socket.socket(fileno=int(descriptor)))]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
