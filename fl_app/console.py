# SPDX-License-Identifier: GPL-3.0-or-later
"""What the commands of `fl_app` share: options, settings, a run with its progress, the result, errors in a sentence."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from fl_app.config import ConfigError, Settings, load_settings
from fl_app.interrupt import EXIT_CODE, stop_on_signal

if TYPE_CHECKING:
    from fl_app.metrics import RoundFigures
    from fl_app.runs import RunFolder

Config = Annotated[
    str | None, typer.Argument(help="A TOML file, or the name of one that comes with gr-oac. Default: quickstart.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a setting.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object; all else goes to stderr.")]
Out = Annotated[Path | None, typer.Option(help="The folder to write to. Default: a new one in runs/.")]

# As `fl_app.train.train`: settings, folder, who is told of each round, whether to stop.
Train = Callable[[Settings, "RunFolder", Callable[["RoundFigures"], None], Callable[[], bool]], dict[str, Any] | None]


def settings_from(config: str | None, changes: list[str] | None, options: dict[str, Any]) -> Settings:
    given = [f"{key}={value}" for key, value in options.items() if value is not None]
    return load_settings(config, [*(changes or []), *given])


def train_and_show(
    settings: Settings, path: Path, as_json: bool, train: Train | None = None, again: str = "fl_app resume"
) -> None:
    """A run from its folder's last checkpoint, or from the beginning, and what it came to."""
    result = run_loop(settings, path, settings.selection.policy, train, again)
    if result is None:
        say(f"stopped after a whole round, and saved. To go on: {again} {path}")
        raise typer.Exit(EXIT_CODE)
    from fl_app.report import result_table

    show_result(as_json, result, result_table(result), f"{path}/report.html, curves.png, aou.png, participation.png")


def run_loop(
    settings: Settings, path: Path, title: str, train: Train | None = None, again: str = "fl_app resume"
) -> dict[str, Any] | None:
    """One run to its end, with its report; None if it was asked to stop."""
    from fl_app.progress import RunProgress
    from fl_app.report import write_report
    from fl_app.runs import RunError, RunFolder
    from fl_app.train import train as train_here
    from fl_app.workers import WorkerError

    folder = RunFolder.open(path)
    console = Console(stderr=True)
    checkpoint = folder.latest()
    done = 0 if checkpoint is None else checkpoint.rounds_done
    say(f"{path}: {settings.headline()}" + (f"; going on after round {done}" if done else ""))
    with RunProgress(console, settings.run.rounds, done, title) as progress, stop_on_signal(say) as should_stop:
        try:
            result = (train or train_here)(settings, folder, progress.show, should_stop)
        except KeyboardInterrupt:
            say(f"stopped at once. To go on from the last checkpoint: {again} {path}")
            raise typer.Exit(EXIT_CODE) from None
        except WorkerError as error:
            raise RunError(f"{error}\nTo go on from the last checkpoint: {again} {path}") from error
    if result is not None:
        write_report(folder)
    return result


def show_result(as_json: bool, result: dict[str, Any], table: Table, where: str) -> None:
    console = Console(stderr=as_json)
    console.print(table)
    console.print(where, soft_wrap=True, highlight=False)
    if as_json:
        typer.echo(json.dumps(result))


def say(text: str) -> None:
    typer.echo(text, err=True)


class _Lines(logging.Handler):
    """A line on stderr for each record; in a file, one that is not broken at column 80."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {self.format(record)}")


@contextmanager
def clear_errors() -> Iterator[None]:
    """What users can put right is said in a sentence, with exit code 2 for settings and 1 for the rest."""
    console = Console(stderr=True)
    handler = RichHandler(console=console) if console.is_terminal else _Lines()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    try:
        yield
    except ConfigError as error:
        say(f"error: {error}")
        raise typer.Exit(2) from None
    except (OSError, RuntimeError, ValueError) as error:
        if not _is_ours(error):
            raise
        say(f"error: {error}")
        raise typer.Exit(1) from None


def _is_ours(error: Exception) -> bool:
    """Errors of the system (a full disk, say) and those that this package words itself."""
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] == "fl_app"
