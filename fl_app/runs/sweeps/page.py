# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the page of a sweep or a comparison: figures, table, and every run with the settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Self
from urllib.parse import quote

from matplotlib.figure import Figure

from fl_app.runs.page import html_figure, html_grid, html_page, html_table
from fl_app.runs.sweeps.plan import HOW_NOT_WHAT, SweepRun, short_keys, value_text_of
from fl_app.runs.sweeps.table import each_seed, shown_columns, table_of
from fl_app.runs.versions import dates_text

STYLE = "body { max-width: 76rem; }"


@dataclass(frozen=True)
class RunsInfo:
    """Say what the page tells of the runs besides their results.

    Attributes
    ----------
    shared : dict
        Settings that all runs have, as texts by section and key.
    differing : dict
        By the run's name: its values of the other settings, as texts by "section.key".
    sessions : dict
        By the run's name: date and versions of each time that it was begun or resumed.
    """

    shared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    differing: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sessions: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[SweepRun]) -> Self:
        """Compare the settings of the runs, and read their dates and versions."""
        trees = {run.name: run.settings.model_dump() for run in runs}
        shared: dict[str, dict[str, str]] = {}
        differing: dict[str, dict[str, str]] = {name: {} for name in trees}
        first = next(iter(trees.values()))
        for section, values in first.items():
            for key in values:
                own = {name: tree[section].get(key) for name, tree in trees.items()}
                if all(value == values[key] for value in own.values()):
                    if section != "run" or key not in HOW_NOT_WHAT:
                        shared.setdefault(section, {})[key] = value_text_of(values[key])
                else:
                    for name, value in own.items():
                        differing[name][f"{section}.{key}"] = value_text_of(value)
        return cls(shared, differing, {run.name: run.folder.read_sessions() for run in runs})


def page(
    name: str,
    outcome: Mapping[str, Any],
    runs: RunsInfo,
    figures: Mapping[str, tuple[Figure, str]],
    files: Sequence[str],
) -> str:
    """Return the page, which holds all it shows, so that it opens from the disk, without a network."""
    points, failed, seeds = outcome["points"], outcome["failed"], outcome["seeds"]
    count = f"{_number(len(points), 'combination')} × {_number(len(seeds), 'seed')}"
    state = f"{_number(len(outcome['runs']), 'run')} finished" + (f", {len(failed)} failed" if failed else "")
    failures = "".join(
        f"<li>{escape(one['run'])}: <span class='failed'>{escape(one['reason'])}</span></li>" for one in failed
    )
    pictures = "\n".join(html_figure(figure, own, caption) for own, (figure, caption) in figures.items())
    links = ", ".join(f'<a href="{escape(quote(file))}">{escape(file)}</a>' for file in files)
    settings = "\n".join(html_table(f"[{section}]", list(values.items())) for section, values in runs.shared.items())
    shared = f'<h2>Settings of all runs</h2>\n<div class="settings">{settings}</div>' if settings else ""
    body = f"""<h1>{escape(name)}</h1>
<p>{escape(outcome["shared"])}. {count}: {state}.</p>
{f"<h2>Failed runs</h2><ul>{failures}</ul>" if failed else ""}
{pictures}
<h2>Table</h2>
{_table(outcome)}
<p>Mean ± standard deviation over the seeds {", ".join(map(str, seeds))}. Each seed's value leads to the report of its
run.</p>
<p>Files: {links}.</p>
<h2>Runs</h2>
{_runs(outcome, runs)}
{shared}"""
    sessions = [one for run in outcome["runs"] for one in runs.sessions.get(run["name"], ())]
    return html_page(name, body, sessions, STYLE)


def _table(outcome: Mapping[str, Any]) -> str:
    """Return the table with a link from each seed's value to the report of its run."""
    headings, rows = table_of(outcome)
    finished = {one["name"] for one in outcome["runs"]}
    column, place = shown_columns(outcome)[0], len(outcome["vary"]) + 1
    cells = [[escape(cell) for cell in row] for row in rows]
    for row, point in zip(cells, outcome["points"], strict=True):
        row[place] = ", ".join(
            _run_link(run, text) if run in finished else text
            for run, text in zip(point["runs"], each_seed(column, point), strict=True)
        )
    return html_grid(headings, cells)


def _runs(outcome: Mapping[str, Any], runs: RunsInfo) -> str:
    """Return a line for each finished run: the settings in which it differs from others, its date and its figures."""
    columns = shown_columns(outcome)
    keys = list(dict.fromkeys(key for own in runs.differing.values() for key in own))
    short = short_keys(keys)
    rows = []
    for one in outcome["runs"]:
        own = runs.differing.get(one["name"], {})
        sessions = runs.sessions.get(one["name"])
        rows.append(
            [
                _run_link(one["name"], one["name"]),
                *(escape(own.get(key, "")) for key in keys),
                dates_text(sessions) if sessions else "",
                *(escape(column.text(one.get(column.figure))) for column in columns),
            ]
        )
    return html_grid(["run", *(short[key] for key in keys), "trained", *(column.title for column in columns)], rows)


def _run_link(run: str, text: str) -> str:
    return f'<a href="{escape(quote(run))}/report.html">{escape(text)}</a>'


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
