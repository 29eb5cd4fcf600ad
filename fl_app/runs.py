# SPDX-License-Identifier: GPL-3.0-or-later
"""A run is a folder: what was asked for, what came out round by round, and what it takes to go on.

config.toml  metrics.jsonl  result.json  checkpoints/  events/  *.png  report.html
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fl_app.checkpoints import Checkpoint, load_checkpoint, save_checkpoint, write_atomically
from fl_app.config import Settings, load_settings
from fl_app.metrics import RoundFigures, read_lines

RUNS = Path("runs")


class RunError(RuntimeError):
    """The run's folder is not what it should be; the message says what to do."""


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.result = path / "result.json"
        self.checkpoints = path / "checkpoints"
        self.events = path / "events"
        self.report = path / "report.html"

    @classmethod
    def create(cls, settings: Settings, path: Path | None = None) -> RunFolder:
        """A new folder for a run of these settings; one that holds a run already is not touched."""
        folder = cls(path or Path(settings.run.out or _fresh_name(settings)))
        if folder.config.exists():
            raise RunError(f"{folder.path} holds a run already: `fl_app resume {folder.path}`, or choose another --out")
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            # Without `out`: the file, given to `fl_app train` once more, makes another run, not this one again.
            write_atomically(folder.config, settings.with_values(run={"out": ""}).toml().encode())
        except OSError as error:
            raise RunError(f"cannot make the run's folder {folder.path}: {error}") from None
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an earlier run."""
        folder = cls(path)
        if not folder.config.is_file():
            raise RunError(f"{path} is not the folder of a run: it has no config.toml")
        return folder

    def settings(self) -> Settings:
        return load_settings(self.config)

    def rows(self) -> list[RoundFigures]:
        """The rounds so far, as far as they were written whole."""
        return read_lines(self.metrics.read_text(encoding="utf-8")) if self.metrics.exists() else []

    def start_metrics(self, rows: Sequence[RoundFigures]) -> None:
        """Begin metrics.jsonl with the rounds that a checkpoint covers; what came after is computed once more."""
        write_atomically(self.metrics, "".join(row.line() for row in rows).encode())

    def append(self, row: RoundFigures) -> None:
        try:
            with self.metrics.open("a", encoding="utf-8") as stream:
                stream.write(row.line())
        except OSError as error:
            raise RunError(
                f"cannot write to {self.metrics}: {error.strerror}; make room, then `fl_app resume {self.path}`"
            ) from error

    def save(self, checkpoint: Checkpoint) -> None:
        save_checkpoint(self.checkpoints, checkpoint)

    def latest(self) -> Checkpoint | None:
        return load_checkpoint(self.checkpoints)

    def write_result(self, result: dict[str, Any]) -> None:
        write_atomically(self.result, (json.dumps(result, indent=2) + "\n").encode())

    def read_result(self) -> dict[str, Any] | None:
        """What a finished run came to; None where it is not finished."""
        try:
            result: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None
        return result


def _fresh_name(settings: Settings) -> Path:
    """runs/20260131-142530-letters-fair-k, with a number behind it if two start in the same second."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    stem = f"{stamp}-{settings.data.name}-{settings.selection.policy}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(RUNS / name for name in names if not (RUNS / name).exists())
