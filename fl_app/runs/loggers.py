# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the figures of the rounds for programs that people already use: TensorBoard, MLflow, Weights & Biases.

Each logger is a `Callback` in the run's folder. MLflow and Weights & Biases write into that folder and send nothing,
unless their own settings (MLFLOW_TRACKING_URI, WANDB_MODE) say otherwise. A run that goes on continues their record.
"""

from __future__ import annotations

import os
import uuid
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fl_app.config import ConfigError, Settings
from fl_app.runs.callbacks import Callback, CallbackList
from fl_app.runs.events import Events
from fl_app.runs.live.logger import LiveLogger
from fl_app.runs.metrics import RoundFigures, numbers_of
from fl_app.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from fl_app.runs.run import Run

PROJECT = "gr-oac"  # MLflow's experiment, and the project at Weights & Biases


class MlflowLogger(Callback):
    """Log settings as parameters and figures as metrics of one MLflow run."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            # MLflow 3 wants a word before it writes files; its data bases need further packages.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        import mlflow

        if "MLFLOW_TRACKING_URI" not in os.environ:
            mlflow.set_tracking_uri((folder.path / "mlruns").resolve().as_uri())
        self._client, kept = mlflow.MlflowClient(), folder.path / "mlflow-run"
        if kept.is_file():
            self._run = kept.read_text(encoding="utf-8").strip()
            self._client.update_run(self._run, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(PROJECT)
        place = self._client.create_experiment(PROJECT) if found is None else found.experiment_id
        self._run = self._client.create_run(place, run_name=folder.path.name).info.run_id
        kept.write_text(self._run, encoding="utf-8")
        for name, value in _flat(settings).items():
            self._client.log_param(self._run, name, value)

    def on_round(self, run: Run, row: RoundFigures) -> None:  # noqa: ARG002
        for name, value in numbers_of(row).items():
            self._client.log_metric(self._run, name, value, step=row.round)

    def on_end(self, run: Run, result: dict[str, Any] | None) -> None:  # noqa: ARG002
        self._client.set_terminated(self._run, "KILLED" if result is None else "FINISHED")


class WandbLogger(Callback):
    """Log settings as the config and figures as the history of one run of Weights & Biases, offline by default."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        import wandb

        kept, mode = folder.path / "wandb-run", os.environ.get("WANDB_MODE", "offline")
        number = kept.read_text(encoding="utf-8").strip() if kept.is_file() else uuid.uuid4().hex[:8]
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.path.name,
            id=number,
            resume="allow",
            dir=str(folder.path),
            mode=mode,  # type: ignore[arg-type,unused-ignore]
            config=_flat(settings),
            settings=wandb.Settings(silent=True),
        )
        kept.write_text(number, encoding="utf-8")

    def on_round(self, run: Run, row: RoundFigures) -> None:  # noqa: ARG002
        self._run.log(numbers_of(row), step=row.round)

    def close(self) -> None:
        self._run.finish()


def check_loggers(settings: Settings) -> None:
    """Raise ConfigError, before the first round, if the package of a logger is missing; TensorBoard's may be."""
    for name in settings.run.loggers:
        if name not in ("dashboard", "tensorboard") and find_spec(name) is None:
            raise ConfigError(f"[run] loggers = {name!r} needs a package: pip install 'gr-oac[{name}]'")


def make_loggers(settings: Settings, folder: RunFolder, rounds_done: int) -> CallbackList:
    """Make the loggers that [run] loggers names, for a run that has played so many rounds already."""
    makers = {
        "dashboard": lambda: LiveLogger(folder, rounds_done),
        "tensorboard": lambda: Events(folder.events, rounds_done),
        "mlflow": lambda: MlflowLogger(settings, folder),
        "wandb": lambda: WandbLogger(settings, folder),
    }
    return CallbackList([makers[name]() for name in settings.run.loggers])


def _flat(settings: Settings) -> dict[str, Any]:
    """Return the settings as ``section.key``."""
    return {
        f"{section}.{key}": value
        for section, part in settings.model_dump(mode="json").items()
        for key, value in part.items()
    }
