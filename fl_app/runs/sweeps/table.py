# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of a sweep as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fl_app.runs.sweeps.outcome import FIGURES
from fl_app.runs.sweeps.plan import short_keys, value_text_of

MISSING = "-"


@dataclass(frozen=True)
class TableColumn:
    """Describe how a figure is shown."""

    figure: str
    heading: str
    digits: int
    unit: str = ""
    scale: float = 1.0

    @property
    def title(self) -> str:
        return f"{self.heading} {self.unit}".strip()

    def text(self, value: float | None) -> str:
        return MISSING if value is None else f"{self.scale * value:.{self.digits}f}"


TABLE_COLUMNS = (
    TableColumn("test_accuracy", "accuracy", 1, "%", 100),
    TableColumn("test_loss", "loss", 2),
    TableColumn("mean_aou", "mean AoU", 2),
    TableColumn("max_aou", "oldest", 1),
    TableColumn("vote_error_rate", "vote err.", 1, "%", 100),
    TableColumn("tie_share", "ties", 1, "%", 100),
    TableColumn("air_seconds", "air", 3, "s"),
    TableColumn("air_joules", "client", 1, "mJ", 1000),
)


def shown_columns(outcome: Mapping[str, Any]) -> list[TableColumn]:
    """Return the columns of the figures that at least one run has: vote errors, say, exist in one-bit mode alone.

    Figures of merit of a task stand first, the accuracy before them.
    """
    names = outcome["figures"]
    has = {figure for point in outcome["points"] for figure in names if point[figure]["mean"] is not None}
    own = [TableColumn(name, name.removeprefix("test_").replace("_", " "), 3) for name in names if name not in FIGURES]
    accuracy, *others = TABLE_COLUMNS
    return [column for column in (accuracy, *own, *others) if column.figure in has]


def table_of(outcome: Mapping[str, Any], with_seeds: bool = True) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows for people: mean ± standard deviation, and the first figure of each seed.

    A figure that never differs between seeds, such as the time on the air, has no standard deviation.
    """
    keys, columns = list(outcome["vary"]), shown_columns(outcome)
    short = short_keys(keys)
    headings = [short[key] for key in keys] + [column.title for column in columns]
    if with_seeds:
        headings.insert(len(keys) + 1, f"each seed {columns[0].unit}".strip())
    with_spread = {column for column in columns if any(point[column.figure]["std"] for point in outcome["points"])}
    rows = []
    for point in outcome["points"]:
        row = [value_text_of(point["values"][key]) for key in keys]
        for column in columns:
            mean, std = (column.text(point[column.figure][what]) for what in ("mean", "std"))
            row.append(f"{mean} ± {std}" if column in with_spread else mean)
        if with_seeds:
            row.insert(len(keys) + 1, ", ".join(each_seed(columns[0], point)))
        rows.append(row)
    return headings, rows


def each_seed(column: TableColumn, point: Mapping[str, Any]) -> list[str]:
    """Return a figure of each seed's run; a dash for a run that is not finished."""
    return [column.text(value) for value in point[column.figure]["each"]]


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def csv_text(outcome: Mapping[str, Any]) -> str:
    """Return a line for each combination: its values, and mean, standard deviation and each seed of every figure.

    The numbers are not rounded, shares are from 0 to 1, and a field without a value is empty.
    """
    keys, seeds = list(outcome["vary"]), outcome["seeds"]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    figures = outcome["figures"]
    columns = [f"{figure}_{what}" for figure in figures for what in ("mean", "std", *(f"seed{seed}" for seed in seeds))]
    writer.writerow([*keys, *columns])
    for point in outcome["points"]:
        numbers = [
            value
            for figure in figures
            for value in (point[figure]["mean"], point[figure]["std"], *point[figure]["each"])
        ]
        values = [value_text_of(point["values"][key]) for key in keys]
        writer.writerow([*values, *("" if number is None else repr(number) for number in numbers)])
    return stream.getvalue()


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def latex_text(text: str) -> str:
    """Return a text with the characters escaped that mean something to LaTeX."""
    return re.sub("[" + re.escape("".join(_LATEX)) + "]", lambda match: _LATEX[match[0]], text)


def latex(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as LaTeX, for the package booktabs; numbers are set to the right."""
    columns = list(zip(*rows, strict=True))
    places = "".join("r" if all(re.match(r"[-+\d]", cell) for cell in column) else "l" for column in columns)
    lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (headings, *rows)]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            rf"\begin{{tabular}}{{{places}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
