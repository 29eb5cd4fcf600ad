# SPDX-License-Identifier: GPL-3.0-or-later
"""List the runs below a folder with their states and figures, and read again only what has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fl_app.runs.dashboard.reader import parsed, read_json, read_settings, state_of
from fl_app.runs.dashboard.tail import last_lines, stamp
from fl_app.runs.metrics import last_known
from fl_app.runs.run_folder import RunFolder

MOST_RUNS, DEEPEST = 2000, 3  # runs that are listed, and folders between the root and a run: runs/sweep/run is 2
TAIL_BYTES = 65_536  # bytes at the end of metrics.jsonl in which the last figures are looked for


class Listing:
    """List the runs below `root`, or the one run that `root` itself is or will be."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, tuple[Any, dict[str, Any]]] = {}

    def path_of(self, name: str) -> Path | None:
        """Return the folder of a listed run; None for any other name, so that no page reads other folders."""
        return next((path for path in self._paths() if self._name(path) == name), None)

    def read(self) -> list[dict[str, Any]]:
        """Return all runs, the newest first."""
        paths = list(self._paths())
        self._known = {path: known for path, known in self._known.items() if path in paths}
        return sorted((self._summary(path) for path in paths), key=lambda one: (-one["began"], one["id"]))

    def _name(self, path: Path) -> str:
        return path.name if path == self.root else path.relative_to(self.root).as_posix()

    def _paths(self) -> Iterator[Path]:
        found = runs_below(self.root, DEEPEST)
        for _, path in zip(range(MOST_RUNS), found, strict=False):
            yield path

    def _summary(self, path: Path) -> dict[str, Any]:
        folder = RunFolder(path)
        files = (folder.config, folder.metrics, folder.result, folder.snapshot)
        stamps = tuple(map(stamp, files))
        known = self._known.get(path)
        if known is None or known[0] != stamps:
            known = self._known[path] = stamps, _figures(folder)
        state = state_of(folder, known[1])
        told = {name: value for name, value in known[1].items() if name != "process"}
        return {"id": self._name(path), "state": state, "began": stamps[0][0] / 1e9, **told}


def runs_below(folder: Path, deepest: int) -> Iterator[Path]:
    """Find the folders of runs in a folder; a run holds no others."""
    if (folder / "config.toml").is_file():
        yield folder
        return
    if deepest == 0:
        return
    try:
        with os.scandir(folder) as entries:
            inside = sorted((entry.name for entry in entries if entry.is_dir(follow_symlinks=False)), reverse=True)
    except OSError:
        return
    for name in inside:
        if not name.startswith("."):
            yield from runs_below(folder / name, deepest - 1)


def _figures(folder: RunFolder) -> dict[str, Any]:
    settings = read_settings(folder.config)
    rows = [row for row in map(parsed, last_lines(folder.metrics, TAIL_BYTES)) if row is not None]
    tested = last_known([row.get("test_accuracy") for row in rows])
    chosen = {
        f"{section}.{key}": settings.get(section, {}).get(key, "").strip('"')
        for section, key in (("selection", "policy"), ("air", "name"), ("data", "name"), ("run", "seed"))
    }
    total = settings.get("run", {}).get("rounds", "0")
    return {
        "policy": chosen["selection.policy"],
        "air": chosen["air.name"],
        "data": chosen["data.name"],
        "seed": chosen["run.seed"],
        "rounds": rows[-1].get("round", -1) + 1 if rows else 0,
        "total": int(total) if total.isdecimal() else 0,
        "accuracy": tested,
        "loss": last_known([row.get("loss") for row in rows]),
        "process": (read_json(folder.snapshot) or {}).get("process"),
    }
