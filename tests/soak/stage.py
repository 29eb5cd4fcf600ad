# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a bench runs: folders of its own, processes that can all be found again, and a disk that can be filled.

Every process inherits a mark in its environment. So what it starts is found too, even when its parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.soak.invariants import Memory

MARK = "GR_OAC_SOAK"
PROGRAMS = Path(sys.executable).parent
LOOK_SECONDS = 0.5  # between two looks at the memory of all processes
POLL_SECONDS = 0.05
DISK_BYTES = 48_000_000
LOG_LINES = 12
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
_FL_APP_COMMANDS = ("up", "server", "client", "radio", "train", "resume")


class Violation(Exception):  # noqa: N818 - it is what was looked for, not an error of ours
    """Something that must hold does not, and the visit cannot go on."""


class Stage:
    """Folders, processes and memory of one visit. Use as a context: nothing outlives it."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(4)
        self.folder = Path(tempfile.gettempdir()) / f"soak-{self._token}"  # short: a socket's path has 107 characters
        self.temporary, self.logs, self.disk = (self.folder / name for name in ("t", "logs", "disk"))
        self.disk_fault = ""  # why the disk cannot be filled, if it cannot
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.memory: dict[int, Memory] = {}
        self._environment = {
            **os.environ,
            MARK: self._token,
            "TMPDIR": str(self.temporary),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self._starts = 0
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stage:
        try:
            self.folder.mkdir(mode=0o700)
            for folder in (self.temporary, self.logs, self.disk):
                folder.mkdir()
            with _signals_wait():  # or Ctrl-C may come when `mount` runs and nobody knows of its process yet
                self.disk_fault = _mount(self.disk)
            self._watcher.start()
        except BaseException:  # Ctrl-C too: nothing is left, wherever it comes
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self.kill_all()
        if self.disk.is_mount():
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Processes

    def start(self, role: str, program: str, *arguments: object, stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        """Start a program of the project; `role` names it from now on."""
        self._starts += 1
        with (self.logs / f"{self._starts:02d}-{role}.log").open("wb") as log:
            self.processes[role] = subprocess.Popen(
                [str(PROGRAMS / program), *map(str, arguments)],
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                process_group=0,
            )
        return self.processes[role]

    def log(self, role: str) -> str:
        """What the latest process of this role has said."""
        return max(self.logs.glob(f"[0-9]*-{role}.log")).read_text(errors="replace")

    def last_words(self, role: str) -> str:
        return " | ".join(line for line in self.log(role).splitlines() if line.strip())[-700:]

    def all_logs(self) -> dict[str, str]:
        return {str(file.relative_to(self.folder)): file.read_text(errors="replace") for file in self.log_files()}

    def log_files(self) -> list[Path]:
        return sorted([*self.logs.glob("*.log"), *self.disk.rglob("logs/*.log")])

    def ours(self) -> dict[int, str]:
        """Return the processes that carry our mark and still run, with their roles, by pid."""
        found, mark = {}, f"{MARK}={self._token}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = role_of((entry / "cmdline").read_bytes().decode().split("\0"))
        return found

    def find(self, role: str, seconds: float = 30.0) -> int:
        """Return the pid of the process with this role; wait for it if it has not started yet."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = [pid for pid, name in self.ours().items() if name == role]
            return bool(found)

        self.until(is_there, f"process {role}", seconds)
        return min(found)

    def signal(self, role: str, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.find(role), number)

    def until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Poll, with a deadline; a Violation if it passes."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Violation(f"no {what} within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def kill_all(self) -> None:
        """End whatever of ours still runs."""
        while left := self.ours():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self.processes.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
        for process in self.processes.values():
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()

    # Memory

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for pid, role in self.ours().items():
                with contextlib.suppress(OSError):
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    one = self.memory.setdefault(pid, Memory(role, pid))
                    one.role, one.most_mb = role, max(one.most_mb, pages * _PAGE_MB)
                    if one.warm_mb is not None:
                        one.most_after_warm_mb = max(one.most_after_warm_mb, pages * _PAGE_MB)

    def mark_warm(self) -> None:
        """The bench has warmed up: each process is measured against its present value from now on."""
        for one in list(self.memory.values()):
            if one.warm_mb is None:
                one.warm_mb = one.most_mb

    # The disk

    @property
    def ballast(self) -> Path:
        return self.disk / "ballast"

    def fill_disk(self) -> None:
        """Take all space that is left."""
        with self.ballast.open("wb") as stream:
            while (free := os.statvfs(self.disk)).f_bavail:
                taken = stream.seek(0, os.SEEK_END)
                with contextlib.suppress(OSError):  # somebody was faster
                    os.posix_fallocate(stream.fileno(), taken, free.f_bavail * free.f_frsize)

    def free_disk(self) -> None:
        self.ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Keep SIGINT and SIGTERM waiting until the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _mount(folder: Path) -> str:
    """Mount a small disk there; why that is not possible, or "" if it is."""
    if os.geteuid() != 0:
        return "only root can mount a small disk to fill"
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "soak", str(folder)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"cannot run mount: {error}"
    return f"mount said: {run.stderr.strip()}" if run.returncode else ""


def role_of(argv: list[str]) -> str:
    """Name a process by its command line, as the schedule names targets."""
    words = [word for word in argv if word]
    names = [Path(word).name for word in words]
    service = next((word for word in words if word.endswith(("loopback_service", "pluto_service"))), None)
    if service is not None:
        after = words[words.index(service) + 1 :]
        return "flowgraph" if service.endswith("loopback_service") else f"flowgraph-{after[0] if after else ''}"
    if "oac-virtual-pluto" in names:
        return "plutos"
    command = next((word for word in words if word in _FL_APP_COMMANDS), None)
    if command == "client":
        return f"client-{_after(words, '--id')}"
    if command == "radio":
        if "--loopback" in words:
            return "radio"
        return f"radio-command-{_after(words, '--client') or 'server'}"
    if command in ("train", "resume"):
        return "train"
    return command or (names[0] if names else "process")


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words[:-1] else ""
