# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a run in a folder: its settings, the figures of each round, and the state from which it can go on.

config.toml  metrics.jsonl  result.json  checkpoints/  events/  sessions.json  round.json  clients.jsonl  run.log
report.html  *.png  scores.json  confusion.csv  per_client.csv  partition.csv
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from fl_app.config import Settings, load_settings
from fl_app.runs.checkpoints import Checkpoint, load_checkpoint, save_checkpoint, why_not_written, write_atomically
from fl_app.runs.metrics import RoundFigures, read_lines
from oac_blocks.errors import OacError

RUNS = Path("runs")


class RunError(OacError, RuntimeError):
    """The run's folder is not as expected; the message says what to do."""


class RunFolder:
    """Read and write the files of one run."""

    def __init__(self, path: Path) -> None:
        self._place(path)
        self._has_own_name = False  # True if this class chose the name, so that another name will do as well
        self._planned: Settings | None = None  # settings without what only the command line of one machine says

    def _place(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.result = path / "result.json"
        self.checkpoints = path / "checkpoints"
        self.events = path / "events"
        self.report = path / "report.html"
        self.sessions = path / "sessions.json"
        self.partition = path / "partition.csv"
        self.scores = path / "scores.json"  # scores of the last model; the two tables are for people
        self.confusion = path / "confusion.csv"
        self.per_client = path / "per_client.csv"
        self.snapshot = path / "round.json"  # the last round, for the live page
        self.clients = path / "clients.jsonl"  # the clients' radios so far, for the live page
        self.log = path / "run.log"

    @classmethod
    def create(cls, settings: Settings, path: Path | None = None) -> RunFolder:
        """Make a new folder for a run with these settings; a folder that already holds a run is not changed."""
        folder = cls.plan(settings, path)
        folder.begin(settings)
        return folder

    @classmethod
    def plan(cls, settings: Settings, path: Path | None = None) -> RunFolder:
        """Name the folder of a new run and check that it can be made; `begin` makes it."""
        named = path or (Path(settings.run.out) if settings.run.out else None)
        folder = cls(named or _fresh_name(settings))
        folder._has_own_name, folder._planned = named is None, settings
        if folder.config.exists():
            raise RunError(f"{folder.path} holds a run already: `{folder.resume_command}`, or choose another --out")
        with folder.writing(f"make the run's folder {folder.path}"):
            _make_and_remove(folder.path)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the folder of an earlier run."""
        folder = cls(path)
        if not folder.config.is_file():
            raise RunError(f"{path} is not the folder of a run: it has no config.toml")
        return folder

    @property
    def exists(self) -> bool:
        """Say whether the folder holds a run that can go on."""
        return self.config.is_file()

    @property
    def resume_command(self) -> str:
        return f"fl_app resume {shlex.quote(str(self.path))}"

    @property
    def page(self) -> tuple[Path, str]:
        """Return the folder that the live page of this run shows, and the run's name in it.

        Beside a run that has its name from here, the page lists the other runs.
        """
        return (self.path.parent, self.path.name) if self._has_own_name else (self.path, self.path.name)

    def begin(self, settings: Settings) -> None:
        """Make the folder when there is something to keep; in an earlier run's folder, update the number of rounds."""
        with self.writing(f"write {self.config}"):
            if self.exists:
                own = self.settings()
                if own.run.rounds != settings.run.rounds:
                    write_atomically(self.config, own.with_values(run={"rounds": settings.run.rounds}).toml().encode())
                    of_the_shorter_run = (self.result, self.scores, self.confusion, self.per_client)
                    for outdated in of_the_shorter_run:
                        outdated.unlink(missing_ok=True)
                return
            if self._has_own_name and self.path.exists():  # another run was started in the same second
                self._place(_fresh_name(settings))
            self.path.mkdir(parents=True, exist_ok=True)
            # Without `out`, so that `fl_app train` with this file makes another run, not this one again.
            planned = self._planned or settings
            write_atomically(self.config, planned.with_values(run={"out": ""}).toml().encode())

    def with_rounds(self, settings: Settings, rounds: int) -> Settings:
        """Return the settings with this number of rounds: more than were played, or as many as a finished run has.

        A run that was killed after its last round has no result yet, and is none the less this run.
        """
        checkpoint = self.latest()
        done = 0 if checkpoint is None else checkpoint.rounds_done
        has_its_rounds = self.read_result() is not None or rounds == self.settings().run.rounds
        is_this_run = rounds == settings.run.rounds and has_its_rounds
        if rounds <= done and not is_this_run:
            raise RunError(
                f"--rounds {rounds}: {self.path} has played {done} rounds already; choose {done + 1} or more"
            )
        for section in (settings.clients, settings.server):
            if section.depends_on_rounds and rounds != settings.run.rounds:
                raise RunError(
                    f"--rounds {rounds}: [{section.SECTION}] lr_schedule = {section.lr_schedule!r} spans "
                    f"{settings.run.rounds} rounds: a run with another number of rounds must begin anew"
                )
        return settings.with_values(run={"rounds": rounds})

    def settings(self) -> Settings:
        return load_settings(self.config)

    def rows(self) -> list[RoundFigures]:
        """Return the rounds so far, up to the last one that was written whole."""
        return read_lines(self.metrics.read_text(encoding="utf-8")) if self.metrics.exists() else []

    def start_metrics(self, rows: Sequence[RoundFigures]) -> None:
        """Begin metrics.jsonl with the rounds that a checkpoint covers; later rounds are computed again."""
        with self.writing(f"write {self.metrics}"):
            write_atomically(self.metrics, "".join(row.line() for row in rows).encode())

    def append(self, row: RoundFigures) -> None:
        """Append a round to metrics.jsonl."""
        with self.writing(f"write {self.metrics}"), self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(row.line())

    def save(self, checkpoint: Checkpoint) -> None:
        save_checkpoint(self.checkpoints, checkpoint)

    def latest(self) -> Checkpoint | None:
        return load_checkpoint(self.checkpoints)

    def write(self, path: Path, text: str) -> None:
        """Write a file of the folder whole."""
        with self.writing(f"write {path}"):
            write_atomically(path, text.encode(), durable=False)

    def note_session(self, session: dict[str, Any]) -> None:
        """Add the date and the versions with which the run was begun or resumed."""
        self.write(self.sessions, json.dumps([*self.read_sessions(), session], indent=1) + "\n")

    def read_sessions(self) -> list[dict[str, Any]]:
        """Return the date and the versions of each time the run was begun or resumed; older runs have none."""
        try:
            sessions: list[dict[str, Any]] = json.loads(self.sessions.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return []
        return sessions

    def write_result(self, result: dict[str, Any]) -> None:
        with self.writing(f"write {self.result}"):
            write_atomically(self.result, (json.dumps(result, indent=2) + "\n").encode())

    def read_result(self) -> dict[str, Any] | None:
        """Return the result of a finished run; None if the run is not finished."""
        try:
            result: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None
        return result

    @contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Turn an OSError into a RunError that says what failed and what to do."""
        try:
            yield
        except OSError as error:
            way = f"; make room, then `{self.resume_command}`" if self.exists else ""
            raise RunError(f"cannot {what}: {why_not_written(error)}{way}") from error


def _make_and_remove(path: Path) -> None:
    """Check that a folder can be made, and remove the folders that the check has made."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    for folder in missing:
        with contextlib.suppress(OSError):  # another process has begun to use it
            folder.rmdir()


def _fresh_name(settings: Settings) -> Path:
    """Return runs/20260131-142530-letters-fair-k, with a number appended if two runs start in the same second."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    parts = re.sub(r"[^\w.-]+", "-", f"{settings.data.name}-{settings.selection.policy}")  # import strings have colons
    stem = f"{stamp}-{parts}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(RUNS / name for name in names if not (RUNS / name).exists())
