# SPDX-License-Identifier: GPL-3.0-or-later
import json
from importlib.metadata import version

import numpy as np
import pytest
from typer.testing import CliRunner

from calibration.allan import allan_deviation
from calibration.cli import app
from calibration.log import COLUMNS, LogError, LogWriter, read_log


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "run.jsonl"
    result = call("simulate", "--clients", 2, "--rounds", 25, "--log", path)
    assert result.exit_code == 0, result.output
    return path


def test_version_and_help():
    assert call("--version").stdout == f"oac-calibrate {version('gr-oac')}\n"
    for command in ("simulate", "report"):
        text = call(command, "--help").stdout
        assert f"Example: oac-calibrate {command}" in " ".join(text.split())


def test_simulate_says_how_it_went():
    result = call("simulate", "--clients", 3, "--rounds", 20)
    assert result.exit_code == 0
    assert "3 clients tracking after 2 rounds" in result.stdout
    assert "tolerance of 0.5 met" in result.stdout


def test_simulate_json_is_one_object_and_the_same_for_the_same_seed():
    outcomes = [call("simulate", "--clients", 3, "--rounds", 20, "--seed", seed, "--json") for seed in (7, 7, 8)]
    values = [json.loads(outcome.stdout) for outcome in outcomes]
    assert values[0] == values[1] != values[2]
    assert values[0]["clients"] == 3
    assert values[0]["rounds_to_lock"] == 2
    assert values[0]["all_tracking"] is True
    assert 0 < values[0]["residual_rms_samples"] < values[0]["residual_max_samples"] < 0.5


def test_a_tolerance_that_is_not_met_is_status_1():
    result = call("simulate", "--rounds", 12, "--tolerance", 0.001, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["tolerance_met"] is False


def test_noise_alone_is_status_1_and_no_lock():
    result = call("simulate", "--clients", 2, "--rounds", 5, "--snr", -40, "--json")
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert (value["rounds_to_lock"], value["residual_rms_samples"], value["all_tracking"]) == (None, None, False)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--clients", 0, "clients"),
        ("--clients", 65, "clients"),
        ("--clients", "two", "clients"),
        ("--rounds", 0, "--rounds"),
        ("--ppm", -1, "ppm"),
        ("--walk", "nan", "walk_ppm"),
        ("--turnaround", 0, "--turnaround"),
        ("--delay-spread", 1e6, "delay_spread"),
        ("--tolerance", 0, "--tolerance"),
        ("--seed", -1, "seed"),
        ("--sample-rate", 0, "--sample-rate"),
    ],
)
def test_bad_input_is_status_2_and_says_what(option, value, says):
    result = call("simulate", "--rounds", 3, option, value)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_a_log_is_not_written_over(log):
    before = log.read_bytes()
    result = call("simulate", "--rounds", 3, "--log", log)
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert log.read_bytes() == before


def test_a_log_holds_all_rounds(log):
    read = read_log(log)
    assert read.rounds.tolist() == list(range(25))
    assert read.kinds[:3] == ("acquire", "acquire", "payload")
    assert read.states[-1] == ("tracking", "tracking")
    assert all(read.columns[name].shape == (25, 2) for name in COLUMNS)
    assert np.isfinite(read.columns["residual_samples"][3:]).all()
    assert read.note == ""


def test_report_draws_a_picture(log, tmp_path):
    picture = tmp_path / "a.png"
    result = call("report", log, "--out", picture, "--json")
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert value["rounds"] == 25
    assert value["rounds_to_lock"] == 2
    assert list(tmp_path.iterdir()) == [picture]


def test_report_agrees_with_simulate(tmp_path):
    path = tmp_path / "run.jsonl"
    told = json.loads(call("simulate", "--clients", 3, "--rounds", 30, "--log", path, "--json").stdout)
    drawn = json.loads(call("report", path, "--json").stdout)
    for key in ("clients", "rounds", "rounds_to_lock", "all_tracking", "residual_rms_samples", "residual_max_samples"):
        assert drawn[key] == told[key]
    assert (tmp_path / "run.png").exists()


def test_a_torn_last_line_is_left_out_and_said(log, tmp_path):
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(log.read_bytes()[:-50])
    result = call("report", torn, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["rounds"] == 24
    assert "line 26 is incomplete" in result.stderr


def test_a_last_line_that_lacks_only_its_newline_counts(log, tmp_path):
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(log.read_bytes()[:-1])
    assert len(read_log(whole).rounds) == 25


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1|not a calibration log"),
        (b"hello\n", "line 1"),
        (b'{"a": 1}\n', "not a calibration log"),
        (b'{"format": "oac-calibration-log", "version": 9}\n', "version"),
        (b'{"format": "oac-calibration-log", "version": 1}\n', "no rounds"),
        (b'{"format": "oac-calibration-log", "version": 1}\n{"round": 0}\n', "KeyError"),
        (b"\xff\xfe\x00\n", "line 1"),
        (b"[1]\n", "not a JSON object"),
    ],
)
def test_what_is_no_log_is_refused_and_nothing_is_written(tmp_path, content, says):
    path, picture = tmp_path / "x.jsonl", tmp_path / "x.png"
    path.write_bytes(content)
    picture.write_bytes(b"mine")
    with pytest.raises(LogError, match=says):
        read_log(path)
    result = call("report", path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert picture.read_bytes() == b"mine"
    assert path.read_bytes() == content


def test_a_broken_line_in_the_middle_is_no_torn_end(log, tmp_path):
    lines = log.read_bytes().splitlines(keepends=True)
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"".join([*lines[:5], lines[5][:30] + b"\n", *lines[6:]]))
    with pytest.raises(LogError, match="line 6"):
        read_log(broken)


def test_report_refuses_to_draw_over_the_log_and_other_kinds_of_files(log):
    assert call("report", log, "--out", log).exit_code == 2
    assert call("report", log, "--out", "a.txt").exit_code == 2
    assert call("report", "/nowhere/at/all.jsonl").exit_code == 2


def test_numbers_that_are_not_known_come_back_as_nan(tmp_path):
    path = tmp_path / "x.jsonl"
    with path.open("w") as file:
        writer = LogWriter(file, 1, 1e6, {})
        writer.round(0, "acquire", float("nan"), ["fine"], {name: np.array([np.nan]) for name in COLUMNS})
    assert "NaN" not in path.read_text()
    assert np.isnan(read_log(path).columns["drift_ppm"]).all()
    assert call("report", path).exit_code == 0  # a picture with nothing in it


# --- Allan deviation ------------------------------------------------------------------------------------------------


def test_white_phase_noise_falls_with_time():
    """sqrt(3) sigma / tau."""
    phase = 1e-9 * np.random.default_rng(1).standard_normal(20_000)
    times, deviations = allan_deviation(phase, 0.04)
    np.testing.assert_allclose(deviations[:6], np.sqrt(3) * 1e-9 / times[:6], rtol=0.1)


def test_a_rate_that_walks_rises_with_time():
    """K sqrt(tau / 3), where the rate's standard deviation after one second is K; the phase is its integral."""
    interval, K, fine = 0.04, 1e-7, 10
    steps = np.random.default_rng(2).standard_normal(200_000 * fine // 10) * K * np.sqrt(interval / fine)
    phase = np.cumsum(np.cumsum(steps)) * interval / fine
    times, deviations = allan_deviation(phase[::fine], interval)
    np.testing.assert_allclose(deviations[1:7], K * np.sqrt(times[1:7] / 3), rtol=0.15)


def test_a_constant_rate_is_perfectly_steady_and_holes_are_left_out():
    phase = 1e-6 * np.arange(100.0)
    phase[[3, 50]] = np.nan
    _, deviations = allan_deviation(phase, 1.0)
    assert np.all(deviations < 1e-15)
    assert allan_deviation([0.0, 1.0], 1.0)[0].size == 0
