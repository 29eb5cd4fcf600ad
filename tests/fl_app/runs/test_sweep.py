# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps that train: bits, table, going on after stops and failures, and other places to run."""

import json

import pytest

from fl_app.config import ConfigError
from fl_app.engine.runners import InThisProcess, JobEvent
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.sweeps.plan import plan
from fl_app.runs.sweeps.sweep import jobs_for, sweep
from fl_app.runs.train import train
from tests.support.runs import assert_same_run

VARY = {"air.snr_db": [0, 20], "selection.policy": ["fair-k"]}
FILES = {f"sweep.{suffix}" for suffix in ("json", "csv", "md", "tex", "png", "svg", "pdf")} | {"sweep.html"}
FILES |= {f"sweep-air.{suffix}" for suffix in ("png", "svg", "pdf")}


@pytest.fixture
def settings(tiny, one_thread):
    return tiny(run={"rounds": 3}, data={"limit": 60, "test_limit": 40}, clients={"n": 2, "H": 1})


@pytest.fixture
def alone(settings, tmp_path):
    """Trains a run of the sweep as `fl_app train` does."""

    def play(**sections):
        own = settings.with_values(**sections)
        folder = RunFolder.create(own, tmp_path / "alone")
        result = train(own, folder, lambda _row: None, lambda: False)
        return folder, result

    return play


def test_runs_in_processes_have_the_bits_of_a_run_alone(settings, alone, tmp_path):
    result = sweep(settings, VARY, seeds=[3, 4], folder=tmp_path / "sweep", jobs=2)
    assert result.is_finished
    assert result.failed == []
    assert {path.name for path in result.folder.iterdir() if path.is_file()} == FILES
    folder, own = alone(run={"seed": 4}, air={"snr_db": 20.0})
    swept = RunFolder(result.folder / "snr_db=20_policy=fair-k-seed4")
    assert_same_run(swept, folder)
    assert swept.report.is_file()
    assert swept.settings() == folder.settings()
    point = result.points[1]
    assert point["values"] == {"air.snr_db": 20.0, "selection.policy": "fair-k"}
    assert point["test_accuracy"]["each"][1] == own["test_accuracy"]
    assert point["test_loss"]["each"][1] == folder.rows()[-1].test_loss
    assert json.loads((result.folder / "sweep.json").read_text()) == result.outcome
    (from_json,) = (run for run in result.runs if run["name"] == swept.path.name)
    assert from_json["test_accuracy"] == own["test_accuracy"]


def test_finished_runs_are_kept_and_values_can_be_added(settings, tmp_path):
    events = []
    kinds = {"folder": tmp_path / "sweep", "jobs": 0, "on_event": lambda event: events.append(event)}
    first = sweep(settings, {"air.snr_db": [0, 20]}, seeds=[3], **kinds)
    assert [event.job for event in events if event.kind == "done"] == [0, 1]
    events.clear()
    assert sweep(settings, {"air.snr_db": [0, 20]}, seeds=[3], **kinds).outcome == first.outcome
    assert events == []
    (first.folder / "snr_db=20-seed3" / "report.html").unlink()  # as if the process had been killed before
    more = sweep(settings, {"air.snr_db": [0, 10, 20]}, seeds=[3], **kinds)
    assert [event.job for event in events if event.kind == "done"] == [1, 2]
    assert [event.job for event in events if event.kind == "told"] == [1, 1, 1]  # the other has its rounds
    assert [more.points[0], more.points[2]] == first.points


class Shaky:
    """A place to run whose first process is killed."""

    def map(self, function, jobs, on_event, should_stop):
        on_event(JobEvent(0, "begun"))
        on_event(JobEvent(0, "failed", "process 7 was killed"))
        rest = InThisProcess()
        rest.map(
            function, jobs[1:], lambda event: on_event(JobEvent(event.job + 1, event.kind, event.content)), should_stop
        )


def test_failed_run_is_reported_and_tried_again_by_the_next_call(settings, tmp_path):
    where = {"seeds": [3, 4], "folder": tmp_path / "sweep"}
    result = sweep(settings, {"air.snr_db": [20]}, runner=Shaky(), **where)
    assert result.is_finished
    assert result.failed == [{"run": "snr_db=20-seed3", "reason": "process 7 was killed"}]
    assert result.points[0]["test_accuracy"]["each"][0] is None
    assert result.points[0]["test_accuracy"]["mean"] == result.runs[0]["test_accuracy"]
    assert "process 7 was killed" in (result.folder / "sweep.html").read_text()
    again = sweep(settings, {"air.snr_db": [20]}, jobs=0, **where)
    assert again.failed == []
    assert len(again.runs) == 2
    assert again.runs[1] == result.runs[0]


def test_run_that_diverges_leaves_the_others(settings, tmp_path):
    vary = {"server.lr": [0.001, 1e30]}
    result = sweep(
        settings.with_values(air={"mode": "analog", "name": "ideal"}, run={"rounds": 9}), vary, [3], tmp_path / "s", 0
    )
    assert len(result.runs) == 1
    assert "the training has diverged" in result.failed[0]["reason"]
    assert (result.folder / "sweep.png").is_file()
    assert (result.folder / "sweep-air.pdf").is_file()
    assert "What the seconds on the air buy" in (result.folder / "sweep.html").read_text()


def test_stopped_run_goes_on_bit_for_bit(settings, alone, tmp_path):
    rows = []

    def note(event):
        if event.kind == "told":
            rows.append(event.content.round)

    where = {"vary": {"air.snr_db": [20, 0]}, "seeds": [4], "folder": tmp_path / "sweep", "jobs": 0, "on_event": note}
    stopped = sweep(settings, should_stop=lambda: bool(rows), **where)
    assert not stopped.is_finished
    assert rows == [0]
    assert [path.name for path in stopped.folder.iterdir()] == ["snr_db=20-seed4"]
    assert sweep(settings, **where).is_finished
    assert rows == [0, 1, 2, 0, 1, 2]
    folder, _ = alone(run={"seed": 4}, air={"snr_db": 20.0})
    assert_same_run(RunFolder(stopped.folder / "snr_db=20-seed4"), folder)


def test_default_number_of_processes(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: range(8))
    runs = plan(tiny(), {}, [1], tmp_path)
    assert (jobs_for(runs, None), jobs_for(runs, 3), jobs_for(runs, 0)) == (8, 3, 0)
    assert jobs_for(plan(tiny(run={"threads": 3}), {}, [1], tmp_path), None) == 2
    radios = {"server": "ip:a", "clients": ["ip:b", "ip:c", "ip:d"], "frequency_hz": 2.4e9}
    bench = plan(tiny(air={"name": "pluto"}, radios=radios), {}, [1], tmp_path)
    assert jobs_for(bench, None) == 0
    with pytest.raises(ConfigError, match=r"--jobs 2: the runs share the radios"):
        jobs_for(bench, 2)
