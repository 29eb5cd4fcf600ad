# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the command `fl_app`. A command imports slow modules (torch, matplotlib) only when it needs them."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from fl_app.cli import link_commands
from fl_app.cli.console import (
    Config,
    FiguresOnRequest,
    Json,
    Out,
    Set,
    clear_errors,
    formats_from,
    settings_from,
    train_and_show,
)
from fl_app.cli.list_command import list_parts
from fl_app.cli.radio_command import radio
from fl_app.cli.reproduce_command import reproduce
from fl_app.cli.sweep_command import compare, sweep
from fl_app.cli.theory_command import theory
from fl_app.cli.web import Port, Web, dashboard, live_page

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

WorkerCount = Annotated[
    int | None,
    typer.Option("--workers", min=0, help="Number of processes that train clients; 0 trains in this process."),
]
Engine = Annotated[
    str | None, typer.Option("--engine", help="Who trains clients: local (this machine) or ray (a Ray cluster).")
]
Run = Annotated[Path, typer.Argument(help="The folder of a run.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fl_app {version('gr-oac')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train models by federated learning over the air: FAIR-k and its rivals, through simulated or real radios.

    Example: fl_app train --set selection.policy=top-k
    """


@app.command()
def train(
    config: Config = None,
    changes: Set = None,
    as_json: Json = False,
    out: Out = None,
    workers: WorkerCount = None,
    engine: Engine = None,
    air: Annotated[str | None, typer.Option(help="ideal, fading, waveform, gnuradio or pluto.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of the data set's files.")] = None,
    web: Web = False,
    port: Port = None,
) -> None:
    """Train a model over the air.

    Example: fl_app train prototype.toml --set run.rounds=50 --set air.snr_db=10 --out runs/my-run
    """
    with clear_errors():
        where = {"run.workers": workers, "engine.name": engine, "run.device": device}
        settings = settings_from(config, changes, {**where, "air.name": air, "data.root": data_root})
        from fl_app.runs.run_folder import RunFolder

        folder = RunFolder.plan(settings, out)
        with live_page(web, port, *folder.page):
            train_and_show(settings, folder, as_json)


@app.command()
def resume(
    run: Run,
    as_json: Json = False,
    workers: WorkerCount = None,
    engine: Engine = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Total number of rounds, instead of the number that the run began with.")
    ] = None,
    web: Web = False,
    port: Port = None,
) -> None:
    """Resume a run that was stopped or killed, bit for bit as if it had never stopped.

    With --rounds a finished run goes on, too: its bits are those of a run that began with this number of rounds.

    Example: fl_app resume runs/my-run

    Example: fl_app resume runs/my-run --rounds 300
    """
    with clear_errors():
        from fl_app.runs.run_folder import RunFolder

        folder = RunFolder.open(run)
        settings = folder.settings()
        if workers is not None:
            settings = settings.with_values(run={"workers": workers})
        if engine is not None:
            settings = settings.with_values(engine={"name": engine})
        if rounds is not None:
            settings = folder.with_rounds(settings, rounds)
        with live_page(web, port, *folder.page):
            train_and_show(settings, folder, as_json)


@app.command()
def report(run: Run, as_json: Json = False, figures: FiguresOnRequest = "") -> None:
    """Draw the figures of a run, finished or not, and write its report.html.

    The confusion matrix and the accuracy of each client are computed from the latest checkpoint if they are missing.

    Example: fl_app report runs/my-run

    Example: fl_app report runs/my-run --figures pdf,svg
    """
    with clear_errors():
        from fl_app.runs.report import write_report
        from fl_app.runs.run_folder import RunFolder
        from fl_app.runs.scores import renew_scores

        formats, folder = formats_from(figures), RunFolder.open(run)
        page = write_report(folder, formats, renew_scores(folder))
        if as_json:
            typer.echo(json.dumps({"run": str(run), "report": str(page)}))
        else:
            typer.echo(page)


@app.command()
def show_config(config: Config = None, changes: Set = None) -> None:
    """Print all settings, defaults included, as TOML.

    Example: fl_app show-config cifar10-small --set clients.n=20 > my.toml
    """
    with clear_errors():
        typer.echo(settings_from(config, changes, {}).toml(), nl=False)


app.command()(compare)
app.command()(sweep)
link_commands.register(app)
app.command()(radio)
app.command()(dashboard)
app.command("list")(list_parts)
app.command()(reproduce)
app.add_typer(theory, name="theory")
