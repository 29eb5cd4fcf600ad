# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the command `fl_app reproduce`: a figure or the table of the paper, with a verdict on its claim."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fl_app.cli.console import (
    FOR_PAPERS,
    FiguresOnRequest,
    Json,
    Set,
    clear_errors,
    figures_again,
    formats_from,
    say,
)
from fl_app.cli.sweep_command import play_with_progress, refuse_failures
from fl_app.paper.scales import Scale


def reproduce(
    name: Annotated[str, typer.Argument(help="fig3, fig4, fig5, fig6, fig7, fig9 or table1.")],
    scale: Annotated[
        Scale, typer.Option(help="smoke proves the path in a minute; cpu answers on two cores; paper needs a GPU.")
    ] = Scale.SMOKE,
    changes: Set = None,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Folder to write to. Default: runs/paper-SCALE.")] = None,
    jobs: Annotated[int | None, typer.Option(min=0, help="Runs side by side. Default: one for each core.")] = None,
    figures: FiguresOnRequest = FOR_PAPERS,
) -> None:
    """Make a figure or the table of the paper, a CSV of it, and a sentence: does its claim hold here?

    Run the command again to go on with a stopped series: finished runs are not repeated, and fig5 draws those of fig4.

    Example: fl_app reproduce fig3

    Example: fl_app reproduce fig4 --scale cpu --set data.root=/data
    """
    with clear_errors():
        from fl_app.paper import reproduce as paper

        figure, formats = paper.experiment_named(name), formats_from(figures)
        folder = out or Path("runs") / f"paper-{scale.value}"
        if figure is not None:
            from fl_app.runs.sweeps.sweep import jobs_for

            runs = paper.runs_of(figure, scale, folder, changes or [])
            options = [*(f"--set={change}" for change in changes or []), "--out", str(folder), *figures_again(figures)]
            again = shlex.join(["fl_app", "reproduce", name, "--scale", scale.value, *options])
            played = play_with_progress(runs, [run.title for run in runs], jobs_for(runs, jobs), again)
            refuse_failures(runs, played, again)
            result = paper.conclude(figure, scale, runs, folder, formats)
        elif name == "fig3":
            result = paper.reproduce_ages(scale, folder, formats)
        else:
            result = paper.reproduce_table(scale, folder, say, changes or [])
        _show(result, paper.answer_of(result), as_json)


def _show(result: dict[str, Any], answer: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result))
        return
    typer.echo(f"{result['name']} ({result['title']}). The paper: {result['claim']}. {answer}.")
    typer.echo(f"{result['sentence']}.")
    typer.echo(
        f"{result['folder']}: {result['name']}.csv, .json, .md" + (", .png" if result["name"] != "table1" else "")
    )
