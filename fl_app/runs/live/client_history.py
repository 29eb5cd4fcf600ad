# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the history of the clients' radios in a file of limited size: one line of JSON for a round."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fl_app.runs.checkpoints import write_atomically

MOST_LINES = 400  # lines of the file; when it has more, every second line goes
COLUMNS = ("offset_samples", "power_db", "cfo_hz")


class ClientHistory:
    """Append rounds to a file. When it is full, the least number of rounds between two lines doubles."""

    def __init__(self, path: Path, rounds_done: int, most_lines: int = MOST_LINES) -> None:
        """Begin a file, or go on after the rounds that a checkpoint covers."""
        self._path, self._most = path, most_lines
        self._lines = [line for line in read_history(path) if line["round"] < rounds_done]
        rounds = [line["round"] for line in self._lines]
        self._gap = min((later - earlier for earlier, later in pairwise(rounds)), default=1)
        self._write()

    def add(self, t: int, clients: Sequence[dict[str, Any]]) -> None:
        """Add round t; the clients are described as in `snapshot.client_lines`."""
        if self._lines and t - self._lines[-1]["round"] < self._gap:
            return
        line = {"round": t, **{name: [one[name] for one in clients] for name in COLUMNS}}
        line["heard"] = [int(one["state"] == "heard") for one in clients]
        self._lines.append(line)
        if len(self._lines) > self._most:
            self._write()
            return
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def _write(self) -> None:
        while len(self._lines) > self._most:
            self._gap *= 2
            every, self._lines = self._lines, []
            for line in every:
                if not self._lines or line["round"] - self._lines[-1]["round"] >= self._gap:
                    self._lines.append(line)
        write_atomically(self._path, "".join(json.dumps(line) + "\n" for line in self._lines).encode(), durable=False)


def read_history(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file up to the first incomplete one; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    lines: list[dict[str, Any]] = []
    for one in text.splitlines():
        try:
            line = json.loads(one)
        except json.JSONDecodeError:
            break
        if not isinstance(line, dict) or not isinstance(line.get("round"), int):
            break
        lines.append(line)
    return lines
