# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``oac-calibrate``. It has no subcommands yet."""

from importlib.metadata import version
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Calibration of radios that share no clock.

    This version of gr-oac has no calibration commands yet: the command answers --version and --help, nothing else.
    """
    typer.echo(f"oac-calibrate {version('gr-oac')}" if show_version else context.get_help())
