# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, watch and end programs in tests, and ask the kernel about their children."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.polling import DEADLINE_SECONDS, until

FL_APP = [sys.executable, "-m", "fl_app"]


def is_running(pid):
    """Return whether a process runs; a process that has ended but was not waited for does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid):
    """Return the children of a process from the kernel's own list; none for a process that has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def family_of(pid):
    """Return the children of a process, their children and so on."""
    return [one for child in children_of(pid) for one in (child, *family_of(child))]


def assert_all_end(pids):
    """Wait until none of these processes runs."""
    until(lambda: not any(map(is_running, pids)), f"the end of the processes {pids}")


class Program:
    """Run a program in its own process group; its output goes to two files.

    Use it as a context manager, or through the fixture ``program``: the program and all processes that it started are
    killed at the end. Files, unlike pipes, never fill up, and can be read while the program runs.

    Parameters
    ----------
    command : list
        Words of the command; each is converted to text.
    folder : Path
        Folder of the two files, which are named after ``name``.
    options
        Options of ``subprocess.Popen``.
    """

    def __init__(self, command, folder, name="program", **options):
        self.out_file, self.err_file = Path(folder) / f"{name}.out", Path(folder) / f"{name}.err"
        with self.out_file.open("w") as out, self.err_file.open("w") as err:
            streams = {"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL}
            self.process = subprocess.Popen(list(map(str, command)), start_new_session=True, **(streams | options))
        self.pid = self.process.pid

    @property
    def out(self):
        """Return what the program has written to its standard output so far."""
        return self.out_file.read_text()

    @property
    def err(self):
        """Return what the program has written to its standard error so far."""
        return self.err_file.read_text()

    @property
    def text(self):
        return self.out + self.err

    @property
    def is_running(self):
        return self.process.poll() is None

    def says(self, words, count=1):
        """Wait until the program has written these words `count` times; the test fails if the program ends before."""
        self.reaches(lambda: self.text.count(words) >= count, f"{words!r} from {self.process.args}")

    def reaches(self, condition, what):
        """Wait for a condition and return its value; the test fails if the program ends before."""
        return self.until(lambda: condition() or not self.is_running, what) and self._still(condition, what)

    def until(self, condition, what):
        return until(condition, what, hint=lambda: self.text)

    def _still(self, condition, what):
        value = condition()  # once more, as the program's last output counts
        assert value, f"ended with code {self.process.returncode} before {what}\n{self.text}"
        return value

    def send(self, number):
        """Send a signal to the program alone."""
        os.kill(self.pid, number)

    def send_to_all(self, number):
        """Send a signal to the program's process group, as a terminal does."""
        os.killpg(self.pid, number)

    def wait(self, seconds=DEADLINE_SECONDS):
        """Wait for the end of the program and return its exit code."""
        until(lambda: not self.is_running, f"the end of {self.process.args}", seconds, hint=lambda: self.text)
        return self.process.returncode

    def kill(self):
        """Kill the program as ``kill -9`` does, and wait for its end."""
        self.process.kill()
        self.process.wait()

    def close(self):
        """Kill the program and all processes that it started."""
        for pid in [*family_of(self.pid), self.pid]:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
