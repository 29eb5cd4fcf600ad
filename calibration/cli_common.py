# SPDX-License-Identifier: GPL-3.0-or-later
"""Share code between all commands of ``oac-calibrate``: errors in one sentence, and files that are not overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from oac_blocks.radio.base import RadioError

NOT_MET, BAD_INPUT = 1, 2
_FILE_WIDTH = 140  # width in characters of the widest table, that of probe
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object; all else goes to stderr.")]


@contextmanager
def clear_errors() -> Iterator[None]:
    """Print user errors as one sentence and exit with 2; exit with 1 for errors at run time."""
    from oac_blocks.bench.threads.plan import BenchError

    try:
        yield
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {about}{error.strerror or error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except (ValueError, RadioError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except BenchError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(NOT_MET) from None


def console_for(as_json: bool) -> Console:
    """Return the console for tables; with --json it is stderr, and in a file it is wide enough for uris and serials."""
    console = Console(stderr=as_json)
    return console if console.is_terminal else Console(stderr=as_json, width=_FILE_WIDTH)


def log_file(path: Path | None) -> Any:
    """Return a new log file; raise ValueError if it exists already."""
    if path is None:
        return nullcontext()
    try:
        return path.open("x", encoding="utf-8")
    except FileExistsError:
        raise ValueError(f"--log {path} already exists; choose another name") from None
