# SPDX-License-Identifier: GPL-3.0-or-later
"""Loggers that people already use, read back by their own programs."""

import subprocess
import sys

import pytest

from fl_app.config import ConfigError
from fl_app.runs import loggers
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from tests.support.paths import ROOT


def played(settings, path, rounds):
    folder = RunFolder.open(path) if path.exists() else RunFolder.create(settings, path)
    settings = settings.with_values(run={"rounds": rounds})
    train(settings, folder, lambda _row: None, lambda: False)
    return folder


@pytest.mark.usefixtures("one_thread")
def test_mlflow_has_the_figures_of_a_run_that_went_on(tiny, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow: pip install 'gr-oac[mlflow]'")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    settings = tiny(run={"loggers": ["mlflow"], "rounds": 2}, air={"name": "ideal"})
    played(settings, tmp_path / "run", 2)
    folder = played(settings, tmp_path / "run", 3)
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "run" / "mlruns").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("gr-oac").experiment_id])
    assert run.data.params["clients.n"] == "3"
    assert run.info.status == "FINISHED"
    ages = {point.step: point.value for point in client.get_metric_history(run.info.run_id, "mean_aou")}
    assert ages == {row.round: row.mean_aou for row in folder.rows()}


WANDB = """
import sys
from fl_app.config import load_settings
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
settings = load_settings(sys.argv[1])
train(settings, RunFolder.create(settings, __import__("pathlib").Path(sys.argv[2])), lambda row: None, lambda: False)
"""


def test_wandb_keeps_its_files_in_the_run_and_sends_nothing(tiny, tmp_path):
    pytest.importorskip("wandb", reason="needs the extra wandb: pip install 'gr-oac[wandb]'")
    settings = tiny(run={"loggers": ["wandb"], "rounds": 1}, air={"name": "ideal"})
    (tmp_path / "config.toml").write_text(settings.toml())
    command = [sys.executable, "-c", WANDB, tmp_path / "config.toml", tmp_path / "run"]
    subprocess.run(command, check=True, cwd=ROOT)  # it leaves hooks in the process that uses it
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    assert b"mean_aou" in kept.read_bytes()


def test_a_logger_whose_package_is_missing_says_so_before_the_first_round(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(loggers, "find_spec", lambda _name: None)
    settings = tiny(run={"loggers": ["wandb"]})
    with pytest.raises(ConfigError, match=r"\[run\] loggers = 'wandb' needs a package: pip install 'gr-oac\[wandb\]'"):
        train(settings, RunFolder.plan(settings, tmp_path / "run"), lambda _row: None, lambda: False)
    assert not (tmp_path / "run").exists()
