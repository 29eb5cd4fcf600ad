# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test-repeat`: runs are counted, every second one has busy loops beside it, and a stopped series goes on."""

import json
import os
import signal
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.processes import assert_all_end, children_of, family_of

SCRIPT = ROOT / "scripts" / "repeat_suite.py"
# A small suite: a test that notes how many children our script has, one that fails in its second run, and one that
# waits in the second run for as long as there is a flag.
TESTS = """
import os, pathlib, time
HERE = pathlib.Path(__file__).parent

def test_counts():
    parent = os.getppid()
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    with (HERE / "children").open("a") as file:
        file.write(f"{len(children)}\\n")

def test_fails_in_the_second_run():
    assert len((HERE / "children").read_text().split()) != 2

def test_waits():
    while len((HERE / "children").read_text().split()) == 2 and (HERE / "wait").exists():
        time.sleep(0.01)
"""


@pytest.fixture
def repeat(tmp_path, program):
    (tmp_path / "test_small.py").write_text(TESTS)
    options = ["--folder", tmp_path / "series", "--cores", 2]
    small = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}", tmp_path / "test_small.py"]
    return lambda runs: program([sys.executable, SCRIPT, "--runs", runs, *options, "--", *small], cwd=tmp_path)


def test_failures_are_counted_for_each_test(repeat, tmp_path):
    series = repeat(3)
    assert series.wait() == 1, series.text
    assert "run 1 of 3: 3 passed, 0 failed, 0 skipped in" in series.out
    assert "run 2 of 3: 2 passed, 1 failed, 0 skipped in" in series.out
    assert "2 of 3 runs were green" in series.out
    assert "1 x (beside busy loops 1 x)  test_small::test_fails_in_the_second_run" in series.out
    assert "AssertionError" in (tmp_path / "series" / "run-2.log").read_text()
    assert (tmp_path / "children").read_text().split() == ["1", "3", "1"]  # pytest, and two busy loops in the second


def test_green_runs_end_with_status_0_and_the_next_series_starts_anew(repeat, tmp_path):
    for _ in range(2):
        (tmp_path / "children").unlink(missing_ok=True)
        series = repeat(1)
        assert series.wait() == 0, series.text
        assert "run 1 of 1: 3 passed, 0 failed, 0 skipped in" in series.out
        assert "(kept)" not in series.out


def test_a_stopped_series_leaves_nothing_running_and_goes_on_where_it_was(repeat, tmp_path):
    (tmp_path / "wait").touch()
    series = repeat(3)
    series.says("run 1 of 3")
    series.reaches(lambda: len(children_of(series.pid)) == 3, "the busy run")
    series.reaches(lambda: (tmp_path / "children").read_text().count("\n") == 2, "its first test")
    family = family_of(series.pid)
    series.send(signal.SIGINT)
    assert series.wait() == 130
    assert "the same command goes on with run 2" in series.out
    assert_all_end(family)
    (tmp_path / "wait").unlink()
    again = repeat(3)
    assert again.wait() == 0, again.text
    assert "run 1 of 3: 3 passed, 0 failed, 0 skipped" in again.out
    assert again.out.count("(kept)") == 1
    assert "3 of 3 runs were green" in again.out


def test_a_run_that_pytest_could_not_finish_has_failed(repeat, tmp_path):
    (tmp_path / "test_small.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    series = repeat(1)
    assert series.wait() == 1
    assert "1 x (beside busy loops 0 x)  (pytest itself, exit status -9)" in series.out
    assert json.loads((tmp_path / "series" / "run-1.json").read_text())["tests"] == 0
