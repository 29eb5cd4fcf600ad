# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``oac-blocks``: where Companion finds the blocks and the flowgraphs.

Imports neither GNU Radio nor torch, so that it answers at once, in any environment.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

PACKAGE = Path(__file__).resolve().parent
BLOCKS = PACKAGE / "grc"
FLOWGRAPHS = PACKAGE / "flowgraphs"

app = typer.Typer(no_args_is_help=True, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oac-blocks {version('gr-oac')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Where GNU Radio Companion finds the blocks and flowgraphs of gr-oac.

    Example: GRC_BLOCKS_PATH="$(oac-blocks path)" gnuradio-companion
    """


@app.command()
def path() -> None:
    """Print the folder of the blocks' descriptions, for GRC_BLOCKS_PATH."""
    typer.echo(BLOCKS)


@app.command()
def flows() -> None:
    """List the flowgraphs that come with gr-oac: name, then file."""
    files = sorted(FLOWGRAPHS.resolve().glob("*.grc"))
    if not files:
        typer.echo(f"no flowgraphs in {FLOWGRAPHS}", err=True)
        raise typer.Exit(1)
    width = max(len(file.stem) for file in files)
    for file in files:
        typer.echo(f"{file.stem:<{width}}  {file}")
