# SPDX-License-Identifier: GPL-3.0-or-later
"""A round's figures on disk, and their sums."""

import json
from dataclasses import replace

import pytest

from fl_app.runs.metrics import RoundFigures, read_lines, summary, without_times

ROW = RoundFigures(
    round=0,
    k=100,
    loss=2.0,
    test_accuracy=None,
    test_loss=None,
    mean_aou=1.5,
    max_aou=4,
    participation=0.5,
    dropped_clients=1,
    vote_error_rate=0.25,
    votes_compared=40,
    symbols=10,
    air_seconds=0.001,
    snr_db=19.0,
    pmepr_db=None,
    train_seconds=1.0,
    air_cpu_seconds=0.1,
    seconds=1.5,
)


OLD_KEYS = set(json.loads(ROW.line())) - {"absent_clients", "downlink_bytes", "tie_share", "air_joules", "air_hertz"}


def rows(n):
    return [replace(ROW, round=number) for number in range(n)]


def test_lines_read_back():
    assert read_lines("".join(row.line() for row in rows(3))) == rows(3)


def test_line_is_plain_json_also_for_infinity():
    line = replace(ROW, loss=float("inf"), snr_db=float("nan")).line()
    assert line.endswith("\n")
    value = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert value["loss"] is None
    assert value["snr_db"] is None


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_line_cut_short_ends_the_reading(cut):
    text = "".join(row.line() for row in rows(3))
    assert read_lines(text[:-cut]) == rows(3 if cut == 1 else 2)


@pytest.mark.parametrize("line", ["3\n", "{}\n", '{"round": 2}\n', "\n", rows(1)[0].line()])
def test_line_that_does_not_fit_ends_the_reading(line):
    text = "".join(row.line() for row in rows(2))
    assert read_lines(text + line + text) == rows(2)


def test_peaks_of_a_run_are_the_mean_over_its_rounds():
    """The last round alone has a few hundred symbols."""
    values = (10.0, None, 11.5)
    measured = [replace(row, pmepr_db=value) for row, value in zip(rows(3), values, strict=True)]
    assert summary(measured)["pmepr_db"] == pytest.approx(10.75)
    assert summary(rows(2))["pmepr_db"] is None


def test_summary_adds_up_and_keeps_the_last_state():
    first, second, third = rows(3)
    second = replace(second, test_accuracy=0.9, vote_error_rate=0.0, votes_compared=60, dropped_clients=0)
    third = replace(third, test_accuracy=0.7, vote_error_rate=None, votes_compared=0, loss=None, mean_aou=2.5)
    first, second = replace(first, k=300, tie_share=0.6), replace(second, tie_share=0.2, air_joules=0.125)
    first, third = replace(first, air_joules=0.5, air_hertz=1e6), replace(third, air_joules=0.25)
    result = summary([first, second, third])
    assert result["rounds"] == 3
    assert (result["test_accuracy"], result["best_test_accuracy"]) == (0.7, 0.9)
    assert result["loss"] == 2.0
    assert result["mean_aou"] == 2.5
    assert result["vote_error_rate"] == pytest.approx(0.25 * 40 / 100)
    assert result["tie_share"] == pytest.approx((300 * 0.6 + 100 * 0.2) / 400)
    assert (result["air_joules"], result["air_hertz"]) == (0.875, 1e6)
    assert summary([first, replace(second, air_joules=None)])["air_joules"] is None
    assert result["dropped_clients"] == 2
    assert result["symbols"] == 30
    assert result["seconds"] == pytest.approx(4.5)


def test_times_are_what_may_differ_between_equal_runs():
    other = replace(ROW, train_seconds=9.0, air_cpu_seconds=9.0, seconds=9.0)
    assert without_times(other) == without_times(ROW)
    assert without_times(replace(ROW, air_seconds=9.0)) != without_times(ROW)


def test_lines_of_before_there_was_a_link_are_read():
    lines = [{key: value for key, value in json.loads(row.line()).items() if key in OLD_KEYS} for row in rows(2)]
    assert read_lines("".join(json.dumps(line) + "\n" for line in lines)) == rows(2)
    del lines[1]["loss"]  # one of the old ones is needed
    assert read_lines("".join(json.dumps(line) + "\n" for line in lines)) == rows(1)
