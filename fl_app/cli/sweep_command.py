# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the commands `sweep` and `compare`: many runs side by side, one table and one figure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fl_app.cli.console import (
    FOR_PAPERS,
    Config,
    FiguresOnRequest,
    Json,
    Set,
    clear_errors,
    figures_again,
    formats_from,
    say,
    settings_from,
    show_result,
)
from fl_app.cli.web import Port, Web, live_page
from fl_app.config import ConfigError
from fl_app.core.selection import POLICY_NAMES
from fl_app.processes.interrupt import EXIT_CODE, stop_on_signal

if TYPE_CHECKING:
    from fl_app.engine.runners import JobEvent
    from fl_app.runs.sweeps.plan import SweepRun
    from fl_app.runs.sweeps.sweep import SweepEnd

Seeds = Annotated[str, typer.Option(help="Numbers separated by commas.")]
REASONS_SHOWN = 3  # reasons of failed runs that the error names


def sweep(
    config: Config = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", metavar="SECTION.KEY=VALUE,...", help="A setting and its values; give it once for each setting."
        ),
    ] = None,
    seeds: Seeds = "1,2,3",
    changes: Set = None,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep. Default: runs/sweep-CONFIG.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of runs side by side, each in a process. Default: one for each core. 0: in this one."
        ),
    ] = None,
    figures: FiguresOnRequest = FOR_PAPERS,
    web: Web = False,
    port: Port = None,
) -> None:
    """Train every combination of some settings with every seed, and write one table, one figure and one page.

    Run the command again to resume a stopped sweep, to try failed runs again, or to add values and seeds: finished
    runs are not repeated.

    Example: fl_app sweep --vary selection.k_m_ratio=0,0.25,0.5,0.75,1 --vary air.snr_db=0,10,20 --seeds 1,2,3
    """
    with clear_errors():
        from fl_app.runs.sweeps import sweep as sweeping
        from fl_app.runs.sweeps.plan import parse_vary, plan
        from fl_app.runs.sweeps.table import table_of

        settings, formats = settings_from(config, changes, {}), formats_from(figures)
        path = out or Path("runs") / f"sweep-{Path(config or 'quickstart').stem}"
        runs = plan(settings, parse_vary(vary or []), seeds_from(seeds), path, "--vary {}={}".format)
        options = [*(f"--vary={text}" for text in vary or []), "--seeds", seeds]
        more = [*([] if jobs is None else ["--jobs", str(jobs)]), *figures_again(figures)]
        again = _again("sweep", config, options, changes, path, more)
        with live_page(web, port, path):
            played = play_with_progress(runs, [run.title for run in runs], sweeping.jobs_for(runs, jobs), again)
        result = sweeping.conclude(runs, played, path, formats)
        if result.runs:
            headings, rows = table_of(result.outcome, with_seeds=False)  # sweep.md has them; a terminal is narrow
            show_result(
                as_json,
                result.outcome,
                _table(headings, rows),
                f"{path}/sweep.html, sweep.png, sweep-air.png, sweep.csv, sweep.tex",
            )
        refuse_failures(runs, played, again)


def compare(
    config: Config = None,
    policies: Annotated[str, typer.Option(help=", ".join(POLICY_NAMES))] = "fair-k,top-k,age-top-k,top-rand",
    seeds: Seeds = "1,2,3",
    changes: Set = None,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the comparison. Default: runs/compare-CONFIG.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Number of processes that play runs side by side; 0: in this one.")
    ] = None,
    figures: FiguresOnRequest = FOR_PAPERS,
) -> None:
    """Train several policies on the same seeds and the same data split, and write one table and one figure.

    Run the command again to resume a stopped comparison: finished runs are not repeated.

    Example: fl_app compare fashion-onebit --policies fair-k,top-k,top-rand --seeds 1,2,3
    """
    with clear_errors():
        from fl_app.runs.sweeps import compare as comparison
        from fl_app.runs.sweeps.sweep import share_radios

        settings, formats = settings_from(config, changes, {"run.workers": workers}), formats_from(figures)
        path = out or Path("runs") / f"compare-{Path(config or 'quickstart').stem}"
        names = [name.strip() for name in policies.split(",")]
        runs = comparison.plan_comparison(settings, names, seeds_from(seeds), path)
        options = ["--policies", policies, "--seeds", seeds]
        again = _again("compare", config, options, changes, path, figures_again(figures))
        titles = [run.settings.selection.policy for run in runs]
        # The processes that would train the clients of one run play a run each.
        played = play_with_progress(runs, titles, 0 if share_radios(runs) else settings.run.workers, again)
        refuse_failures(runs, played, again)
        outcome = comparison.conclude_comparison(runs, path, formats)
        shown = {"with_seeds": False}  # compare.md has them; a terminal is narrow
        table = _table(comparison.columns(outcome, **shown), comparison.table_rows(outcome, **shown))
        show_result(
            as_json, outcome, table, f"{path}/compare.html, compare.png, compare-air.png, compare.csv, compare.tex"
        )


def seeds_from(text: str) -> list[int]:
    """Return the numbers of --seeds."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text}: write numbers separated by commas, for example 1,2,3") from None


def _again(
    command: str, config: str | None, options: list[str], changes: list[str] | None, path: Path, more: list[str]
) -> str:
    """Return the command that goes on with a stopped sweep."""
    changed = [f"--set={change}" for change in changes or []]
    return shlex.join(["fl_app", command, *([config] if config else []), *options, *changed, "--out", str(path), *more])


def play_with_progress(runs: Sequence[SweepRun], titles: Sequence[str], jobs: int, again: str) -> SweepEnd:
    """Play the runs that are not finished, with progress; exit if the sweep is stopped."""
    from fl_app.cli.sweep_progress import SweepProgress
    from fl_app.engine.runners import make_runner
    from fl_app.runs.sweeps.sweep import play

    words, played = "", None
    # The signal handlers are set first and restored last, as closing the progress bars takes some time, too.
    with stop_on_signal() as stop:
        try:
            with SweepProgress(Console(stderr=True), runs, titles) as progress:

                def on_event(event: JobEvent) -> None:
                    if event.kind == "keeping":
                        stop.finish_rounds()
                    progress.show(event)

                played = play(runs, make_runner(jobs), on_event, stop)
            words = f"stopped after whole rounds, and saved. To go on: {again}"
        except KeyboardInterrupt:
            has_kept = any(run.folder.exists for run in runs)
            nothing = "stopped before the first round was over; nothing was kept"
            words = f"stopped at once. To go on: {again}" if has_kept else nothing
        if played is None or not played.is_finished:
            say(words)
            raise typer.Exit(EXIT_CODE)
    return played


def refuse_failures(runs: Sequence[SweepRun], played: SweepEnd, again: str) -> None:
    """Raise RunError if runs have failed; the error names the reasons and how to try again."""
    from fl_app.runs.run_folder import RunError

    if not played.reasons:
        return
    by_reason: dict[str, list[str]] = {}
    for number, reason in played.reasons.items():
        by_reason.setdefault(reason.strip(), []).append(runs[number].title)
    lines = [
        f"{titles[0]}{f' and {len(titles) - 1} more' if len(titles) > 1 else ''}: {reason}"
        for reason, titles in list(by_reason.items())[:REASONS_SHOWN]
    ]
    if len(by_reason) > REASONS_SHOWN:
        lines.append(f"{len(by_reason) - REASONS_SHOWN} further reasons")
    failed = "\n".join(lines)
    raise RunError(f"{len(played.reasons)} of {len(runs)} runs failed.\n{failed}\nTo try them again: {again}")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*headings, box=SIMPLE, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table
