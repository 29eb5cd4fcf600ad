# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of a sweep as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
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


def table_of(
    outcome: Mapping[str, Any], with_seeds: bool = True, with_errors: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows for people.

    Parameters
    ----------
    outcome
        Outcome of the sweep.
    with_seeds
        Whether the first figure of each seed has a column.
    with_errors
        Whether ± stands before the standard error of the mean instead of the standard deviation over the seeds.

    Returns
    -------
    headings, rows : list
        A figure that never differs between seeds, such as the time on the air, has a mean alone.
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
            figure = point[column.figure]
            mean = column.text(figure["mean"])
            spread = column.text(standard_error(figure) if with_errors else figure["std"])
            has_spread = column in with_spread and figure["mean"] is not None
            row.append(f"{mean} ± {spread}" if has_spread else mean)
        if with_seeds:
            row.insert(len(keys) + 1, ", ".join(each_seed(columns[0], point)))
        rows.append(row)
    return headings, rows


def standard_error(figure: Mapping[str, Any]) -> float | None:
    """Return the standard error of a figure's mean over the seeds; None for fewer than two seeds."""
    known = sum(value is not None for value in figure["each"])
    return None if figure["std"] is None else float(figure["std"] / math.sqrt(known))


def each_seed(column: TableColumn, point: Mapping[str, Any]) -> list[str]:
    """Return a figure of each seed's run; a dash for a run that is not finished."""
    return [column.text(value) for value in point[column.figure]["each"]]


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def csv_text(outcome: Mapping[str, Any]) -> str:
    """Return a line for each combination: its values, and of every figure mean, deviation, error and each seed.

    The numbers are not rounded, shares are from 0 to 1, and a field without a value is empty.
    """
    keys, seeds = list(outcome["vary"]), outcome["seeds"]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    figures = outcome["figures"]
    columns = [
        f"{figure}_{what}" for figure in figures for what in ("mean", "std", "sem", *(f"seed{seed}" for seed in seeds))
    ]
    writer.writerow([*keys, *columns])
    for point in outcome["points"]:
        numbers = [value for figure in figures for value in (*_statistics(point[figure]), *point[figure]["each"])]
        values = [value_text_of(point["values"][key]) for key in keys]
        writer.writerow([*values, *("" if number is None else repr(number) for number in numbers)])
    return stream.getvalue()


def _statistics(figure: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    return figure["mean"], figure["std"], standard_error(figure)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "[": "{[}",  # behind the \\ of the line before, a plain one would begin an argument
    "]": "{]}",
    "*": "{*}",  # likewise
    "\n": " ",
}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_FIGURE = re.compile(rf"({_NUMBER})(?: ± ({_NUMBER}|{MISSING}))?")


def latex_text(text: str) -> str:
    """Return a text with the characters escaped that mean something to LaTeX."""
    return re.sub("[" + re.escape("".join(_LATEX)) + "]", lambda match: _LATEX[match[0]], text)


def latex_cell(text: str) -> str:
    """Return a cell of a table: a number is set as one, with its minus and ±, and a missing one as a dash."""
    if text == MISSING:
        return "--"
    figure = _FIGURE.fullmatch(text)
    if figure is None:
        return latex_text(text)
    number, spread = (re.sub(r"e(-?)\+?0*(\d+)", r" \\cdot 10^{\1\2}", part or "") for part in figure.groups())
    return f"${number} \\pm {spread}$" if spread and spread != MISSING else f"${number}$"


def latex_of(outcome: Mapping[str, Any]) -> str:
    """Return the table of a sweep as LaTeX: mean ± standard error over the seeds."""
    seeds = ", ".join(map(str, outcome["seeds"]))
    return latex(
        *table_of(outcome, with_seeds=False, with_errors=True), f"mean and standard error over the seeds {seeds}"
    )


def latex(headings: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    """Return a table as LaTeX, for the package booktabs; numbers are set to the right, and ``note`` is a comment."""
    columns = list(zip(*rows, strict=True))
    is_number = [all(cell == MISSING or _FIGURE.fullmatch(cell) for cell in column) for column in columns]
    places = "".join("r" if numeric else "l" for numeric in is_number)
    lines = [" & ".join(map(latex_text, headings)), *(" & ".join(map(latex_cell, row)) for row in rows)]
    head, *body = (line + r" \\" for line in lines)
    return "\n".join(
        [
            rf"% {note}; needs \usepackage{{booktabs}}",
            rf"\begin{{tabular}}{{{places}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
