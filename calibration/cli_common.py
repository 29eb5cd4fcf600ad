# SPDX-License-Identifier: GPL-3.0-or-later
"""What all commands of ``oac-calibrate`` share: errors in a sentence, and files that are not written over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from oac_blocks.radio.base import RadioError

NOT_MET, BAD_INPUT = 1, 2
_FILE_WIDTH = 140  # characters: the widest table, that of probe
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object; all else goes to stderr.")]


@contextmanager
def clear_errors() -> Iterator[None]:
    """What users can put right is said in a sentence, with exit code 2; what went wrong on the way, with 1."""
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
    """Tables are for people: with --json they go to stderr. In a file they are wide enough for uris and serials."""
    console = Console(stderr=as_json)
    return console if console.is_terminal else Console(stderr=as_json, width=_FILE_WIDTH)


def log_file(path: Path | None) -> Any:
    """A new file: a log that is there already is not written over."""
    if path is None:
        return nullcontext()
    try:
        return path.open("x", encoding="utf-8")
    except FileExistsError:
        raise ValueError(f"--log {path} is there already; give another name") from None
