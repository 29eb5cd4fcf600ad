# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the figures of two commits: ``make bench-compare A B``.

A and B are files of ``make bench``, or commits (any name that git knows) whose figures are in benchmarks/results.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.record.machine import commit
from benchmarks.record.results import FOLDER, load

NOTEWORTHY = 1.1  # figures that changed by this factor or more are printed in bold
SAME_MACHINE = ("cpu", "cores")


@dataclass(frozen=True)
class Pair:
    """Hold a figure of both sides; a side that lacks it has None."""

    benchmark: str
    table: str
    row: str
    column: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        """B over A, if both are there and A is not 0."""
        return self.b / self.a if self.a and self.b is not None else None

    @property
    def noteworthy(self) -> bool:
        ratio = self.ratio
        return ratio is not None and (ratio <= 0 or abs(math.log(ratio)) >= math.log(NOTEWORTHY))


def find(name: str, folder: Path = FOLDER) -> Path:
    """Return the file of a path or commit; ValueError says what is there if there is none."""
    if Path(name).is_file():
        return Path(name)
    try:
        names = [name, commit(name)]
    except ValueError:
        names = [name]
    if name == "HEAD":
        names.append(names[-1].removesuffix("-changed"))
    for candidate in names:
        if (file := folder / f"{candidate}.json").is_file():
            return file
    kept = ", ".join(sorted(file.stem for file in folder.glob("*.json"))) or "none yet"
    raise ValueError(
        f"{name} is neither a file nor a commit with figures. Figures are kept of: {kept}. Run make bench."
    )


def pairs(a: dict[str, Any], b: dict[str, Any]) -> list[Pair]:
    """Return the figures of both files side by side, in the order of A, then those that only B has."""
    sides = [_by_name(content) for content in (a, b)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [Pair(*name, sides[0].get(name), sides[1].get(name)) for name in names]


def _by_name(content: dict[str, Any]) -> dict[tuple[str, str, str, str], float]:
    return {
        (benchmark, figure["table"], figure["row"], figure["column"]): figure["value"]
        for benchmark, entry in content["benchmarks"].items()
        for figure in entry["figures"]
    }


def show(a: dict[str, Any], b: dict[str, Any], console: Console) -> None:
    """Print one table for each benchmark."""
    for side, content in (("A", a), ("B", b)):
        machine = content["machine"]
        console.print(f"{side}: {machine['commit']}, {machine['date']}, {machine['cpu']}, {machine['cores']} cores")
    if any(a["machine"][key] != b["machine"][key] for key in SAME_MACHINE):
        console.print("[bold]Different machines: compare the columns that are ratios, not times.[/bold]")
    compared = pairs(a, b)
    for benchmark in dict.fromkeys(pair.benchmark for pair in compared):
        table = Table(title=benchmark)
        for heading in ("figure", "A", "B", "B / A"):
            table.add_column(heading, justify="left" if heading == "figure" else "right")
        own = [pair for pair in compared if pair.benchmark == benchmark]
        for pair in own:
            values = ["-" if value is None else f"{value:g}" for value in (pair.a, pair.b)]
            ratio = "-" if pair.ratio is None else f"{pair.ratio:.2f}"
            name = ": ".join(part for part in (pair.table, pair.row, pair.column) if part)
            table.add_row(name, *values, ratio, style="bold" if pair.noteworthy else None)
        console.print(table)


def main(names: list[str]) -> int:
    if len(names) != 2:
        print("two names are needed: make bench-compare A B, with files of make bench or commits", file=sys.stderr)
        return 2
    try:
        a, b = (load(find(name)) for name in names)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    show(a, b, Console(width=None if sys.stdout.isatty() else 140))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
