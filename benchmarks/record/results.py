# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the figures out of the tables that the benchmarks print, and keep them as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.record.machine import ROOT, describe

FOLDER = ROOT / "benchmarks" / "results"
FORMAT = 1
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class RecordingConsole(Console):
    """Print, and remember the tables."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tables: list[Table] = []

    def print(self, *objects: Any, **options: Any) -> None:
        self.tables += [thing for thing in objects if isinstance(thing, Table)]
        super().print(*objects, **options)

    def take_figures(self) -> list[dict[str, Any]]:
        """Return the figures of the tables since the last call."""
        tables, self.tables = self.tables, []
        return [figure for table in tables for figure in figures_of(table)]


def figures_of(table: Table) -> Iterable[dict[str, Any]]:
    """Yield every cell of a table that begins with a number, except those of the first column, which name the rows."""
    headings = [_plain(column.header) for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        texts = [_plain(cell) for cell in cells]
        for heading, text in zip(headings[1:], texts[1:], strict=True):
            if number := _NUMBER.match(text):
                value = float(number[0].replace(",", ""))
                yield {"table": _plain(table.title), "row": texts[0], "column": heading, "value": value, "text": text}


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell or "")).plain


def save(figures: dict[str, list[dict[str, Any]]], folder: Path = FOLDER) -> Path:
    """Keep the figures of each benchmark under the name of the commit; others of this commit stay as they are."""
    machine = describe()
    file = folder / f"{machine['commit']}.json"
    kept = load(file)["benchmarks"] if file.exists() else {}
    folder.mkdir(parents=True, exist_ok=True)
    kept |= {name: {"machine": machine, "figures": found} for name, found in figures.items()}
    file.write_text(json.dumps({"format": FORMAT, "machine": machine, "benchmarks": kept}, indent=1), encoding="utf-8")
    return file


def load(file: Path) -> dict[str, Any]:
    """Read a file that `save` wrote; ValueError says what is wrong with another one."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is no JSON file: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{file} must be a file of `make bench` with format = {FORMAT}")
    return content
