# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide what the commands of `fl_app` share: options, settings, a run with progress, results and clear errors."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from fl_app.config import ConfigError, Settings, load_settings
from fl_app.pictures import FORMATS
from fl_app.processes.interrupt import EXIT_CODE, stop_on_signal
from oac_blocks.errors import OacError
from oac_blocks.plugins import PluginError

if TYPE_CHECKING:
    from fl_app.runs.metrics import RoundFigures
    from fl_app.runs.run_folder import RunFolder

Config = Annotated[
    str | None, typer.Argument(help="A TOML file, or the name of a config that comes with gr-oac. Default: quickstart.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object; all else goes to stderr.")]
Out = Annotated[Path | None, typer.Option(help="The folder to write to. Default: a new one in runs/.")]

FiguresOnRequest = Annotated[
    str, typer.Option("--figures", help="Formats of the figures besides PNG, separated by commas: pdf, svg.")
]

FOR_PAPERS = "pdf,svg"  # what the commands that are run once for a paper write without being asked


def figures_again(text: str) -> list[str]:
    """Return --figures for the command that goes on, where it is not the default."""
    return [] if text == FOR_PAPERS else [f"--figures={text}"]


def formats_from(text: str) -> tuple[str, ...]:
    """Return the formats of --figures; PNG is always among them."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise ConfigError(f"--figures {text}: {unknown[0]!r} is no format; there are {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(["png", *names]))


# A function that plays the rounds. It takes the settings, the run's folder, a function that is called after each round,
# one that says whether to stop, and one that is called before the first write.
Train = Callable[
    [Settings, "RunFolder", Callable[["RoundFigures"], None], Callable[[], bool], Callable[[], None]],
    dict[str, Any] | None,
]


# Settings that have their own option.
_OPTIONS = {
    "run.workers": "--workers",
    "engine.name": "--engine",
    "air.name": "--air",
    "run.device": "--device",
    "data.root": "--data-root",
}


def settings_from(config: str | None, changes: list[str] | None, options: dict[str, Any]) -> Settings:
    """Load the settings from a config, the changes by --set and the options of a command."""
    given = {f"{key}={value}": f"{_OPTIONS[key]} {value}" for key, value in options.items() if value is not None}
    return load_settings(config, changes or [], given)


def train_and_show(
    settings: Settings,
    folder: RunFolder,
    as_json: bool,
    train: Train | None = None,
    again: Callable[[Path], str] = lambda path: shlex.join(["fl_app", "resume", str(path)]),
) -> None:
    """Run from the folder's last checkpoint, or from the beginning, and show the result.

    `again` makes the command that resumes the run in a folder.
    """
    result = run_loop(settings, folder, settings.selection.policy, lambda: again(folder.path), train)
    from fl_app.runs.report import result_table

    files = f"{folder.path}/report.html, curves.png, aou.png, participation.png"
    show_result(as_json, result, result_table(result), files)


def run_loop(
    settings: Settings,
    folder: RunFolder,
    title: str,
    again: Callable[[], str],
    train: Train | None = None,
) -> dict[str, Any]:
    """Play one run to its end and write its report; exit if the run is stopped.

    Parameters
    ----------
    again
        Makes the command that resumes a stopped run.
    train
        Plays the rounds; by default all clients are computed on this machine.
    """
    from fl_app.engine.worker_process import WorkerError, start_fork_server

    if train is None and settings.run.workers and settings.engine.name == "local":
        start_fork_server()  # it imports torch while this process does
    from fl_app.cli.progress import RunProgress
    from fl_app.runs.report import write_report
    from fl_app.runs.run_folder import RunError

    def play(settings: Settings, folder: RunFolder, *calls: Any) -> dict[str, Any] | None:
        from fl_app.experiment.experiment import Experiment

        return Experiment.from_settings(settings).play(folder, *calls)

    checkpoint = folder.latest()
    done = 0 if checkpoint is None else checkpoint.rounds_done
    say(f"{folder.path}: {settings.headline()}" + (f"; going on after round {done}" if done else ""))
    result, words = None, ""
    try:
        # The signal handlers are set first and restored last, as closing the progress bar takes some time, too.
        with stop_on_signal() as stop:
            try:
                with RunProgress(Console(stderr=True), settings.run.rounds, done, title) as progress:
                    result = (train or play)(settings, folder, progress.show, stop, stop.finish_rounds)
                words = f"stopped after a whole round, and saved. To go on: {again()}"
            except KeyboardInterrupt:
                nothing = "stopped before the first round was over; nothing was kept"
                words = f"stopped at once. To go on: {again()}" if folder.exists else nothing
            if result is None:
                say(words)
    except WorkerError as error:
        on = f"\nTo go on from the last checkpoint: {again()}" if folder.exists else ""
        raise RunError(f"{error}{on}") from error
    if result is None:
        raise typer.Exit(EXIT_CODE)
    with folder.writing("write the report"):
        write_report(folder)
    return result


def show_result(as_json: bool, result: dict[str, Any], table: Table, where: str) -> None:
    """Print a result as a table and name its files; with `as_json` print it as JSON on stdout, the rest on stderr."""
    console = Console(stderr=as_json)
    console.print(table)
    console.print(where, soft_wrap=True, highlight=False)
    if as_json:
        typer.echo(json.dumps(result))


def say(text: str) -> None:
    """Print a line to stderr."""
    typer.echo(text, err=True)


class _Lines(logging.Handler):
    """Write one line to stderr for each record; in a file the line is not broken at column 80."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {self.format(record)}")


@contextmanager
def clear_errors() -> Iterator[None]:
    """Report errors that users can correct in one sentence; the exit code is 2 for settings and 1 for the rest."""
    console = Console(stderr=True)
    handler = RichHandler(console=console) if console.is_terminal else _Lines()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
        raise typer.Exit(EXIT_CODE) from None
    except (ConfigError, PluginError) as error:
        say(f"error: {error}")
        raise typer.Exit(2) from None
    except (OSError, OacError) as error:  # errors of the system (a full disk, say) and of gr-oac
        say(f"error: {error}")
        raise typer.Exit(1) from None
