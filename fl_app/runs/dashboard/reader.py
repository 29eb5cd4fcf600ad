# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow the folder of one run, written by another process: it may appear later, be killed, go on, or be finished."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from typing import Any

from fl_app.processes.identity import is_alive
from fl_app.runs.dashboard.curves import Curves, Position
from fl_app.runs.dashboard.tail import Tail, last_lines, stamp
from fl_app.runs.live.client_history import COLUMNS, read_history
from fl_app.runs.run_folder import RunFolder
from fl_app.toml_text import value_text

LOG_BYTES, MOST_LOG_LINES, MOST_LOGS = 16_384, 200, 70
QUIET_SECONDS = 60.0  # seconds without a new round after which a run without a known process counts as stopped

Json = dict[str, Any]


class RunReader:
    """Hold what a run's folder says. `refresh` looks for news, and `news` returns those that a page has not seen."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.curves = Curves()
        self._tail, self._generation, self._is_torn = Tail(self.folder.metrics), 0, False
        self._stamps: dict[Path, tuple[int, int, int]] = {}
        self._parts: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self._history: list[Json] = []
        self._history_file = 0

    def refresh(self) -> bool:
        """Read what has changed; True if there is more to read."""
        folder, has_more = self.folder, self._read_rounds()
        if self._changed(folder.config):
            self._set("settings", read_settings(folder.config))
        if self._changed(folder.snapshot):
            self._set("snapshot", read_json(folder.snapshot))
        if self._changed(folder.result):
            self._set("result", folder.read_result())
        if self._changed(folder.clients):
            self._history, self._history_file = read_history(folder.clients), self._stamps[folder.clients][2]
        logs = [folder.log, *sorted((folder.path / "logs").glob("*.log"))[:MOST_LOGS]]
        if [log for log in logs if self._changed(log)]:
            self._set("log", {log.stem: last_lines(log, LOG_BYTES)[-MOST_LOG_LINES:] for log in logs if log.exists()})
        self._set("status", self._status())
        return has_more

    def news(self, seen: SeenByPage) -> Json:
        """Return what has changed since a page was told last, and note it in `seen`."""
        told: Json = {}
        for name, version in self._versions.items():
            if seen.versions.get(name) != version:
                seen.versions[name], told[name] = version, self._parts[name]
        if seen.curves != self.curves.position:
            told["curves"], seen.curves = self.curves.since(seen.curves), self.curves.position
        place = (self._history_file, len(self._history))
        if seen.history != place:
            same = seen.history[0] == place[0] and seen.history[1] <= place[1]
            first = seen.history[1] if same else 0
            told["history"], seen.history = {"first": first, **_columns(self._history[first:])}, place
        return told

    def _read_rounds(self) -> bool:
        lines, is_new_file, has_more = self._tail.read()
        if is_new_file:
            self._generation += 1
            self.curves, self._is_torn = Curves(self._generation), False
        for line in lines:
            row = None if self._is_torn else parsed(line)
            self._is_torn = row is None or row.get("round") != self.curves.rounds
            if row is None or self._is_torn:  # what follows a torn line is not trusted, as in `read_lines`
                break
            self.curves.add(row)
        return has_more

    def _status(self) -> Json:
        snapshot, last = self._parts.get("snapshot") or {}, self.curves.last
        return {
            "state": state_of(self.folder, snapshot),
            "last": {name: value for name, value in last.items() if value is not None},
            "air_total": self.curves.air_seconds,
        }

    def _changed(self, path: Path) -> bool:
        before, self._stamps[path] = self._stamps.get(path, (0, 0, 0)), stamp(path)
        return before != self._stamps[path]

    def _set(self, name: str, value: Any) -> None:
        if name not in self._parts or self._parts[name] != value:
            self._parts[name], self._versions[name] = value, self._versions.get(name, 0) + 1


class SeenByPage:
    """Hold what one page was told of a run."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.curves: Position | None = None
        self.history = (0, 0)


def state_of(folder: RunFolder, snapshot: Json) -> str:
    """Say whether a run is "finished", "running", "stopped" or, as long as it has no rounds, "waiting"."""
    if not folder.exists:
        return "waiting"
    if folder.result.exists():
        return "finished"
    alive = is_alive(snapshot.get("process") or {})
    if alive is None:
        written = max(stamp(folder.metrics)[0], stamp(folder.config)[0]) / 1e9
        alive = time.time() - written < QUIET_SECONDS
    return "running" if alive else "stopped"


def parsed(line: bytes | str) -> Json | None:
    """Return the JSON object in a line; None if there is none."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_json(path: Path) -> Json | None:
    """Return the JSON object in a file; None if there is none."""
    try:
        return parsed(path.read_bytes())
    except OSError:
        return None


def read_settings(config: Path) -> dict[str, dict[str, str]]:
    """Return the settings of a run by section and key, as texts; a file that cannot be read has none."""
    try:
        sections = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {
        section: {key: value_text(value) for key, value in values.items()}
        for section, values in sections.items()
        if isinstance(values, dict)
    }


def _columns(lines: list[Json]) -> Json:
    """Return lines of clients.jsonl by columns: `rounds`, and for each name a list with one list for each round."""
    named = {name: [line.get(name) or [] for line in lines] for name in (*COLUMNS, "heard")}
    return {"rounds": [line["round"] + 1 for line in lines], **named}
