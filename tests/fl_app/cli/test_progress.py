# SPDX-License-Identifier: GPL-3.0-or-later
"""How long does a run still take? Its start says nothing about that."""

import io
import re
from dataclasses import fields

from rich.console import Console

from fl_app.cli.progress import RunProgress
from fl_app.cli.sweep_progress import Schedule, SweepProgress
from fl_app.engine.runners import JobEvent
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.sweeps.plan import plan


def test_time_of_all_runs_follows_from_the_rounds_that_all_of_them_play():
    schedule = Schedule([3, 0, 10])  # the second run was finished in an earlier call
    assert schedule.update(0, 2, now=100.0) is None  # the first round says nothing
    assert schedule.update(2, 9, now=102.0) == 2.0 / 1 * (2 + 9)
    assert schedule.update(0, 1, now=103.0) == 3.0 / 2 * (1 + 9)  # side by side: two rounds in three seconds
    assert schedule.update(2, 0, now=110.0) == 10.0 / 11 * 1
    assert schedule.update(0, 0, now=111.0) == 0.0


def test_first_round_which_waits_for_the_start_gives_no_estimate():
    text = io.StringIO()
    row = {field.name: 1 for field in fields(RoundFigures)} | {"test_figures": None}
    with RunProgress(Console(file=text, width=200), 10, 4, "fair-k") as progress:
        for number in (4, 5):
            progress.show(RoundFigures(**{**row, "round": number}))
    first, second = text.getvalue().splitlines()
    assert first.endswith("ETA -")
    assert second.endswith("ETA 0:00")


def test_bars_of_runs_side_by_side(tiny, tmp_path):
    runs = plan(tiny(), {"air.snr_db": [0, 10, 20]}, [1, 2], tmp_path)
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140)
    row = {field.name: 1 for field in fields(RoundFigures) if field.name != "test_figures"}
    with SweepProgress(console, runs, [run.title for run in runs]) as progress:
        progress.show(JobEvent(0, "begun"))
        progress.show(JobEvent(1, "begun"))
        for number in (0, 1):
            progress.show(JobEvent(0, "told", RoundFigures(**{**row, "round": number})))
        progress.show(JobEvent(0, "done", {"test_accuracy": 0.815}))
        progress.show(JobEvent(1, "failed", "first line\nlast line\n"))
        progress.show(JobEvent(2, "begun"))
    plain = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", text.getvalue())
    assert "1/6 snr_db = 0, seed 1: accuracy 81.5 %" in plain
    assert "2/6 snr_db = 10, seed 1 failed: last line" in plain
    assert re.search(r"run 3 of 6 .* 1 finished, 1 failed +ETA \d+:\d\d", plain)
    assert plain.splitlines()[-1].startswith("3/6 snr_db = 20, seed 1")
