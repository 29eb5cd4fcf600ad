# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files of a sweep: sweep.json, its table, its figures, and a page that shows them and links all runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fl_app.runs.checkpoints import write_atomically
from fl_app.runs.figures import draw_air_time
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.report import STYLE
from fl_app.runs.sweeps.figure import SUFFIXES, draw_sweep
from fl_app.runs.sweeps.table import csv_text, each_seed, latex, markdown, shown_columns, table_of

SWEEP_STYLE = """
body { max-width: 76rem; } table.points td, table.points th { white-space: nowrap; text-align: right; }
.wide { overflow-x: auto; } .failed { color: #a00; white-space: pre-wrap; }
"""
AIR_TIME_FIGURE = """<figure><img alt="Accuracy against seconds on the air" src="sweep-air.svg">
<figcaption>What the seconds on the air buy: mean over the seeds, and a band over all of them.</figcaption></figure>"""


def write_files(outcome: Mapping[str, Any], path: Path, curves: Mapping[str, Sequence[Sequence[RoundFigures]]]) -> None:
    """Write all files of a sweep into its folder; `curves` holds the rounds of each combination's runs by label."""
    headings, rows = table_of(outcome)
    draw_sweep(outcome, path / "sweep")
    has_air_time = draw_air_time(curves, path / "sweep-air", SUFFIXES)
    texts = {
        "sweep.json": json.dumps(outcome, indent=2) + "\n",
        "sweep.csv": csv_text(outcome),
        "sweep.md": markdown(headings, rows),
        "sweep.tex": latex(headings, rows),
        "index.html": page(outcome, path.resolve().name, has_air_time),
    }
    for name, text in texts.items():
        write_atomically(path / name, text.encode())


def page(outcome: Mapping[str, Any], name: str, has_air_time: bool = False) -> str:
    """Return the page index.html. It shows the files beside it, so that it opens from the disk, without a network."""
    points, finished = outcome["points"], len(outcome["runs"])
    failed, seeds = outcome["failed"], outcome["seeds"]
    count = f"{_number(len(points), 'combination')} × {_number(len(seeds), 'seed')}"
    state = f"{_number(finished, 'run')} finished" + (f", {len(failed)} failed" if failed else "")
    files = [f"sweep.{suffix}" for suffix in (*SUFFIXES, "md", "csv", "tex", "json")]
    files += [f"sweep-air.{suffix}" for suffix in SUFFIXES] if has_air_time else []
    failures = "".join(
        f"<li>{escape(one['run'])}: <span class='failed'>{escape(one['reason'])}</span></li>" for one in failed
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(name)}</title><style>{STYLE}{SWEEP_STYLE}</style></head>
<body>
<h1>{escape(name)}</h1>
<p>{escape(outcome["shared"])}. {count}: {state}.</p>
{f"<h2>Failed runs</h2><ul>{failures}</ul>" if failed else ""}
<figure><img alt="Accuracy and other figures of all combinations" src="sweep.svg">
<figcaption>Mean over the seeds; the bars are one standard deviation.</figcaption></figure>
{AIR_TIME_FIGURE if has_air_time else ""}
<h2>Table</h2>
<div class="wide">{_table(outcome)}</div>
<p>Mean ± standard deviation over the seeds {", ".join(map(str, seeds))}. Each seed's value leads to the report of its
run.</p>
<p>Files: {", ".join(f'<a href="{file}">{file}</a>' for file in files)}.</p>
</body>
</html>
"""


def _table(outcome: Mapping[str, Any]) -> str:
    """Return the table with a link from each seed's value to the report of its run."""
    headings, rows = table_of(outcome)
    finished = {one["name"] for one in outcome["runs"]}
    column, place = shown_columns(outcome)[0], len(outcome["vary"]) + 1
    lines = ["".join(f"<th>{escape(heading)}</th>" for heading in headings)]
    for row, point in zip(rows, outcome["points"], strict=True):
        cells = [escape(cell) for cell in row]
        cells[place] = ", ".join(
            _run_link(run, text) if run in finished else text
            for run, text in zip(point["runs"], each_seed(column, point), strict=True)
        )
        lines.append("".join(f"<td>{cell}</td>" for cell in cells))
    return f'<table class="points">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def _run_link(run: str, text: str) -> str:
    return f'<a href="{escape(quote(run))}/report.html">{escape(text)}</a>'


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
