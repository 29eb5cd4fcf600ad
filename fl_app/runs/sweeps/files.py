# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files of a sweep, and what a comparison has, too: tables, figures, and a page that links all runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fl_app.pictures import FORMATS, save_figure
from fl_app.runs.checkpoints import write_atomically
from fl_app.runs.figures import air_time_figure
from fl_app.runs.sweeps.figure import sweep_figure
from fl_app.runs.sweeps.outcome import curves_of
from fl_app.runs.sweeps.page import RunsInfo, page
from fl_app.runs.sweeps.plan import SweepRun
from fl_app.runs.sweeps.table import csv_text, latex_of, markdown, table_of

SWEEP_CAPTION = "Mean over the seeds; the bars are one standard deviation."
AIR_CAPTION = "What the seconds on the air buy: mean over the seeds, and a band over all of them."


def write_sweep(
    outcome: Mapping[str, Any], runs: Sequence[SweepRun], path: Path, formats: Sequence[str] = FORMATS
) -> None:
    """Write all files of a sweep into its folder."""
    write_text(path / "sweep.json", json.dumps(outcome, indent=2) + "\n")
    write_text(path / "sweep.md", markdown(*table_of(outcome)))
    figures = {"sweep": (sweep_figure(outcome), SWEEP_CAPTION), "sweep-air": (_air(runs), AIR_CAPTION)}
    write_files("sweep", outcome, runs, path, figures, formats)


def write_files(
    kind: str,
    outcome: Mapping[str, Any],
    runs: Sequence[SweepRun],
    path: Path,
    figures: Mapping[str, tuple[Figure | None, str]],
    formats: Sequence[str],
) -> None:
    """Write the figures, KIND.csv, KIND.tex and KIND.html; ``figures`` holds figure and caption by the file's name."""
    drawn = {name: (figure, caption) for name, (figure, caption) in figures.items() if figure is not None}
    for name, (figure, _) in drawn.items():
        save_figure(figure, path / name, formats)
    files = [f"{name}.{suffix}" for name in drawn for suffix in formats]
    files += [f"{kind}.{suffix}" for suffix in ("md", "csv", "tex", "json")]
    write_text(path / f"{kind}.csv", csv_text(outcome))
    write_text(path / f"{kind}.tex", latex_of(outcome))
    write_text(path / f"{kind}.html", page(path.resolve().name, outcome, RunsInfo.of(runs), drawn, files))


def write_text(path: Path, text: str) -> None:
    """Write a file whole."""
    write_atomically(path, text.encode())


def _air(runs: Sequence[SweepRun]) -> Figure | None:
    return air_time_figure(curves_of(runs))
