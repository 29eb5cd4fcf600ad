# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in this process and in others: what they return, how they fail, and how they are stopped."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fl_app.engine.runners import InThisProcess, JobStopped, SideBySide, make_runner
from oac_blocks.errors import OacError
from tests.support.paths import ROOT
from tests.support.polling import until


def play(job, control):
    """A job of the tests, by its name."""
    kind, content = job
    if kind == "square":
        control.tell(content)
        return content**2
    if kind == "where":
        return Path.cwd(), os.getpid()
    if kind == "refuse":
        raise OacError(f"{content} is refused")
    if kind == "break":
        return 1 / content
    if kind == "wait":  # until it is asked to stop, with something to keep
        control.begin_keeping()
        until(control.should_stop, "the word to stop")
        Path(content).touch()
        raise JobStopped
    assert kind == "hang"  # until it is killed, as it never looks whether it should stop
    control.tell(content)
    until(lambda: False, "the end of this process")


def run(runner, jobs, on_event=lambda _event: None, should_stop=lambda: False):
    """Return all events of each job, in their order."""
    events = {number: [] for number in range(len(jobs))}

    def take(event):
        events[event.job].append((event.kind, event.content))
        on_event(event)

    runner.map(play, jobs, take, should_stop)
    return events


@pytest.mark.parametrize("count", [0, 2])
def test_every_job_is_run_and_a_failure_stays_alone(count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jobs = [("square", 3), ("refuse", "this"), ("break", 0), ("where", None), ("square", 5)]
    events = run(make_runner(count), jobs)
    assert events[0] == [("begun", None), ("told", 3), ("done", 9)]
    assert events[1] == [("begun", None), ("failed", "this is refused")]
    assert events[2][1][0] == "failed"
    assert "Traceback" in events[2][1][1]
    assert events[2][1][1].endswith("ZeroDivisionError: division by zero\n")
    folder, pid = events[3][1][1]
    assert folder == tmp_path
    assert (pid == os.getpid()) == (count == 0)
    assert events[4][-1] == ("done", 25)


def test_processes_are_used_again_and_end_with_the_jobs():
    events = run(SideBySide(2), [("where", None)] * 9)
    assert len({own[-1][1][1] for own in events.values()}) <= 2
    assert multiprocessing.active_children() == []


def test_killed_process_fails_its_job_and_another_one_takes_its_place():
    def kill(event):
        if event.kind == "told":
            (child,) = multiprocessing.active_children()
            os.kill(child.pid, signal.SIGKILL)

    events = run(SideBySide(1), [("hang", "told"), ("where", None)], kill)
    kind, reason = events[0][-1]
    assert kind == "failed"
    assert "was killed by SIGKILL (the system may have run out of memory)" in reason
    assert events[1][-1][0] == "done"


def test_stop_asks_jobs_that_keep_something_and_kills_the_others(tmp_path):
    seen = set()
    jobs = [("wait", tmp_path / "saved"), ("hang", "told"), ("square", 2)]
    events = run(SideBySide(2), jobs, lambda event: seen.add(event.kind), lambda: seen >= {"keeping", "told"})
    assert events[0] == [("begun", None), ("keeping", None), ("stopped", None)]
    assert events[1] == [("begun", None), ("told", "told"), ("stopped", None)]
    assert events[2] == []
    assert (tmp_path / "saved").exists()
    assert multiprocessing.active_children() == []


def test_stop_in_this_process_ends_the_job_and_begins_no_other(tmp_path):
    seen = []
    jobs = [("wait", tmp_path / "saved"), ("square", 2)]
    events = run(InThisProcess(), jobs, lambda event: seen.append(event.kind), lambda: "keeping" in seen)
    assert events[0] == [("begun", None), ("keeping", None), ("stopped", None)]
    assert events[1] == []


def test_job_that_should_stop_keeps_nothing(tmp_path):
    asked = iter([False, True])
    events = run(InThisProcess(), [("wait", tmp_path / "saved")], should_stop=lambda: next(asked))
    assert events[0] == [("begun", None), ("stopped", None)]
    assert list(tmp_path.iterdir()) == []


def test_exception_here_kills_the_processes():
    def interrupt(event):
        if event.kind == "told":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SideBySide(1), [("hang", "told")], interrupt)
    assert multiprocessing.active_children() == []


SCRIPT = """
from fl_app.engine.runners import SideBySide
from tests.fl_app.engine.test_runners import play

SideBySide(1).map(play, [("square", 2)], print, lambda: False)
"""


def test_script_without_a_main_guard_is_told_what_is_missing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert 'below the line `if __name__ == "__main__":`' in last
    assert last.endswith("or set jobs = 0")
