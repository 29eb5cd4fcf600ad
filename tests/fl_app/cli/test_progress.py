# SPDX-License-Identifier: GPL-3.0-or-later
"""How long does a run still take? Its start says nothing about that."""

import io
from dataclasses import fields

from rich.console import Console

from fl_app.cli.progress import RunProgress, Schedule
from fl_app.runs.metrics import RoundFigures


def test_time_of_all_runs_counts_the_rounds_that_are_left():
    schedule = Schedule([3, 0, 10])
    schedule.next_run()
    assert schedule.timed(2.0, rounds_left=2) == 2.0 * (2 + 0 + 10)
    assert schedule.timed(4.0, rounds_left=1) == 3.0 * (1 + 0 + 10)  # the mean of both rounds
    schedule.next_run()  # finished in an earlier call
    schedule.next_run()
    assert schedule.timed(3.0, rounds_left=9) == 3.0 * 9


def test_first_round_which_waits_for_the_start_gives_no_estimate():
    text = io.StringIO()
    row = {field.name: 1 for field in fields(RoundFigures)} | {"test_figures": None}
    with RunProgress(Console(file=text, width=200), 10, 4, "fair-k") as progress:
        for number in (4, 5):
            progress.show(RoundFigures(**{**row, "round": number}))
    first, second = text.getvalue().splitlines()
    assert first.endswith("ETA -")
    assert second.endswith("ETA 0:00")
