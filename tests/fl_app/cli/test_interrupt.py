# SPDX-License-Identifier: GPL-3.0-or-later
"""Ctrl-C and SIGTERM at any moment of a real process: one line, exit status 130, and no folder without a run in it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fl_app.runs.run_folder import RunFolder
from tests.support.polling import until
from tests.support.processes import FL_APP, children_of

QUICK = {
    "run.rounds": 100_000,
    "run.eval_every": 1000,
    "data.limit": 60,
    "data.test_limit": 20,
    "clients.H": 1,
    "clients.batch_size": 4,
}
OPTIONS = [f"--set={key}={value}" for key, value in QUICK.items()]
NOTHING_KEPT = "stopped before the first round was over; nothing was kept"


def has_begun(program):
    """The first lines of fl_app were executed: it catches SIGTERM, which Python itself does not."""
    caught = int(Path(f"/proc/{program.pid}/status").read_text().split("SigCgt:")[1].split()[0], 16)
    return caught >> (signal.SIGTERM - 1) & 1


def imports_torch(program):
    return "libtorch" in Path(f"/proc/{program.pid}/maps").read_text()


def has_headline(program):
    return "letters, cnn" in program.err


def has_children(program):
    """Of `train`: the fork server, which imports torch in its turn. Of `up`: the server, and clients."""
    return len(children_of(program.pid)) >= 2


def ends(program, number):
    """Signal the whole group, as a terminal does. Return what was written then, once all processes of it are gone."""
    before = len(program.err)
    program.send_to_all(number)
    assert program.wait() == 130, program.err

    def is_empty():
        try:
            os.killpg(program.pid, 0)
        except ProcessLookupError:
            return True

    until(is_empty, "the end of the workers")
    return program.err[before:].splitlines()


@pytest.mark.parametrize(
    ("command", "event", "seconds", "number"),
    [
        ("train", has_begun, 0.0, signal.SIGINT),
        ("train", has_begun, 0.3, signal.SIGTERM),
        ("train", imports_torch, 0.0, signal.SIGINT),
        ("train", has_children, 0.0, signal.SIGTERM),
        ("server", has_headline, 0.0, signal.SIGINT),
        ("up", has_children, 0.0, signal.SIGTERM),
        *(
            pytest.param(*moment, marks=pytest.mark.slow)
            for moment in (
                ("train", has_begun, 0.0, signal.SIGTERM),
                ("train", has_begun, 1.0, signal.SIGINT),
                ("train", has_begun, 2.0, signal.SIGINT),
                ("train", has_headline, 0.0, signal.SIGINT),
                ("train", has_headline, 0.2, signal.SIGTERM),
                ("train", has_children, 1.0, signal.SIGINT),
                ("train", has_children, 3.0, signal.SIGINT),
                ("compare", has_headline, 0.0, signal.SIGINT),
                ("sweep", has_headline, 0.0, signal.SIGTERM),
                ("sweep", has_children, 1.0, signal.SIGINT),
                ("sweep", has_children, 3.0, signal.SIGINT),
                ("up", has_begun, 0.5, signal.SIGINT),
                ("up", has_children, 3.0, signal.SIGINT),
            )
        ),
    ],
)
def test_signal_while_a_run_starts(tmp_path, program, command, event, seconds, number):
    own = {"server": ["--bind", "ipc://server"], "train": ["--workers", 2]}.get(command, [])
    started = program([*FL_APP, command, *OPTIONS, *own, "--out", "run"], cwd=tmp_path)
    started.reaches(lambda: event(started), event.__name__)
    time.sleep(seconds)  # for another moment of the start; whichever it is, the outcome is the same
    *others, last = ends(started, number)
    if (tmp_path / "run").exists():  # on a fast machine the first round may be over
        assert last.startswith("stopped"), started.err
        runs = (tmp_path / "run").iterdir() if command in ("compare", "sweep") else [tmp_path / "run"]
        assert all(RunFolder(run).exists for run in runs)
        return
    assert last in ("stopped", NOTHING_KEPT)
    assert [line for line in others if "letters, cnn" not in line and "finishing" not in line] == []
    assert list(tmp_path.iterdir()) == []


def test_second_signal_stops_at_once_and_the_hint_is_quoted(tmp_path, program):
    started = program([*FL_APP, "train", *OPTIONS, "--workers", 0, "--out", "my run"], cwd=tmp_path)
    run = RunFolder(tmp_path / "my run")
    started.reaches(lambda: run.rows(), "a round")
    started.send(signal.SIGINT)
    lines = ends(started, signal.SIGINT)
    assert lines[-1].endswith("To go on: fl_app resume 'my run'")
    assert "Traceback" not in started.err


def test_interrupt_during_an_import_leaves_the_exit_status_alone(tmp_path):
    """Dataclasses `exec` a text when they are defined; CPython takes an interrupt there for one that nobody catches."""
    (tmp_path / "interrupted.py").write_text(
        "from fl_app.processes.interrupt import guard_process\n"
        "guard_process()\n"
        "try:\n"
        "    exec('raise KeyboardInterrupt')\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(130)\n"
    )
    assert subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path).returncode == 130


def test_client_leaves_with_one_line(tmp_path, program):
    started = program([*FL_APP, "client", "--server", "ipc://nobody", "--id", 0], cwd=tmp_path)
    started.says("client 0: joining")
    assert ends(started, signal.SIGTERM) == ["client 0: stopped; the others go on"]
