# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `fl_app sweep` as its users meet it, Ctrl-C included."""

import json
import re
import shlex
import signal

import pytest

from fl_app.runs.run_folder import RunFolder
from tests.support.cli import fl_app
from tests.support.processes import FL_APP, assert_all_end, family_of
from tests.support.runs import assert_same_run

pytestmark = pytest.mark.usefixtures("own_folder")

SMALL = ["--set=run.rounds=2", "--set=data.limit=60", "--set=data.test_limit=40", "--set=clients.H=1"]


def test_sweep_prints_one_json_object_and_repeats_no_finished_run(tiny_options, tmp_path):
    own = [*tiny_options, *SMALL]
    options = ["sweep", *own, "--vary", "air.snr_db=0,20", "--seeds", "3", "--json"]
    result = fl_app(*options, "--jobs", 2)
    outcome = json.loads(result.stdout)
    assert outcome["sweep"] == "runs/sweep-quickstart"
    assert outcome["vary"] == {"air.snr_db": [0.0, 20.0]}
    assert len(outcome["points"]) == len(outcome["runs"]) == 2
    for number in (1, 2):
        assert f"run {number} of 2\n" in result.stderr
        assert re.search(rf"{number}/2 snr_db = \d+, seed 3: round +2/2 .* ETA 0:00, all \d+:\d\d\n", result.stderr)
    assert "runs/sweep-quickstart/sweep.html" in result.stderr
    fl_app("train", *own, "--set=run.seed=3", "--set=air.snr_db=20", "--out", "alone")
    assert_same_run(RunFolder(tmp_path / "runs/sweep-quickstart/snr_db=20-seed3"), RunFolder(tmp_path / "alone"))
    again = fl_app(*options, "--jobs", 2)
    assert json.loads(again.stdout) == outcome
    assert "round" not in again.stderr
    changed = fl_app(*options, "--set=clients.H=3", code=1)
    assert "holds a run with other settings ([clients] H = 1, now 3)" in changed.stderr


def test_failed_runs_are_named_and_the_others_are_shown(tiny_options):
    options = [*tiny_options, *SMALL, "--jobs=0", "--seeds=1,2", "--out", "my sweep"]
    result = fl_app("sweep", *options, "--vary", "selection.k=100,900000", "--json", code=1)
    outcome = json.loads(result.stdout)
    assert [run["k"] for run in outcome["runs"]] == [100, 100]
    assert [one["run"] for one in outcome["failed"]] == ["k=900000-seed1", "k=900000-seed2"]
    error = result.stderr.partition("error: ")[2].splitlines()
    assert error[0] == "2 of 4 runs failed."
    assert error[1] == "k = 900000, seed 1 and 1 more: [selection] k = 900000: the model has only 109402 parameters"
    assert error[2].startswith("To try them again: fl_app sweep --vary=selection.k=100,900000 --seeds 1,2 --set=")
    assert error[2].endswith("--out 'my sweep' --jobs 0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "air.snr=1,2"], "--vary air.snr=1: [air] snr: unknown key; did you mean 'snr_db'"),
        (["--vary", "selection.policy=fare-k"], "--vary selection.policy=fare-k: "),
        (["--vary", "air.snr_db=1", "--vary", "air.snr_db=2"], "--vary air.snr_db stands twice"),
        (["--vary", "air.snr_db"], "--vary air.snr_db: write section.key=value,value"),
        (["--seeds", "1,x"], "--seeds 1,x: write numbers separated by commas"),
        (["--seeds", "1,1"], "seeds 1, 1: give at least one seed, and each seed once"),
    ],
)
def test_faults_are_said_in_a_sentence(arguments, message, tmp_path):
    result = fl_app("sweep", *arguments, "--json", code=2)
    assert f"error: {message}" in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


LONG = {
    "run.rounds": 100_000,
    "run.eval_every": 1000,
    "data.limit": 60,
    "data.test_limit": 20,
    "clients.H": 1,
    "clients.batch_size": 4,
}


@pytest.mark.early
def test_ctrl_c_finishes_the_rounds_and_names_the_command_that_goes_on(tmp_path, program):
    changes = [f"--set={key}={value}" for key, value in LONG.items()]
    options = ["--vary", "air.snr_db=0,10,20", "--seeds", "1", *changes, "--jobs", 2, "--out", "my sweep"]
    started = program([*FL_APP, "sweep", *options], cwd=tmp_path)
    folders = [RunFolder(tmp_path / "my sweep" / f"snr_db={snr}-seed1") for snr in (0, 10)]
    started.reaches(lambda: all(len(folder.rows()) > 2 for folder in folders), "rounds of two runs")
    family = family_of(started.pid)
    started.send_to_all(signal.SIGINT)
    assert started.wait() == 130, started.err
    assert_all_end(family)
    assert "Traceback" not in started.err
    last = started.err.splitlines()[-1]
    words, _, again = last.partition(" To go on: ")
    assert words == "stopped after whole rounds, and saved."
    done = [len(folder.rows()) for folder in folders]
    assert [folder.latest().rounds_done for folder in folders] == done
    assert sorted(path.name for path in (tmp_path / "my sweep").iterdir()) == ["snr_db=0-seed1", "snr_db=10-seed1"]

    going_on = program([*FL_APP, *shlex.split(again)[1:]], cwd=tmp_path)
    going_on.says(f"going on after round {done[0]}")
    going_on.says(f"going on after round {done[1]}")
    going_on.reaches(
        lambda: all(len(folder.rows()) > n for folder, n in zip(folders, done, strict=True)), "more rounds"
    )
    family = family_of(going_on.pid)
    going_on.kill()  # the processes of the runs notice, finish their round and save
    assert_all_end(family)
    for folder in folders:
        assert folder.latest().rounds_done == len(folder.rows())


def test_a_task_without_accuracy_is_compared_by_its_loss_and_its_own_figures(tmp_path):
    options = ["table", "--set=run.rounds=1", "--set=clients.n=2", "--seeds=1,2", "--json"]
    swept = json.loads(fl_app("sweep", *options, "--vary=server.lr=0.001,0.003", "--jobs=0", "--out=swept").stdout)
    headings, first = (tmp_path / "swept" / "sweep.md").read_text().splitlines()[0::2][:2]
    assert headings.startswith("| lr | r2 | each seed | rmse | loss |")
    figures = [run["test_figures"]["r2"] for run in swept["runs"] if run["values"] == {"server.lr": 0.001}]
    assert f"{sum(figures) / 2:.3f} ± " in first
    assert "test_r2_mean" in (tmp_path / "swept" / "sweep.csv").read_text()
    compared = json.loads(fl_app("compare", *options, "--policies=fair-k,top-k", "--workers=0", "--out=two").stdout)
    losses = [one["test_loss"] for one in compared["policies"].values()]
    table = (tmp_path / "two" / "compare.md").read_text().splitlines()
    assert table[0].startswith("| policy | loss | each seed |")
    assert f"| {min(losses):.3f} |" in table[2]
