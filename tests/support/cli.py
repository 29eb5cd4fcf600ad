# SPDX-License-Identifier: GPL-3.0-or-later
"""Call the command fl_app inside the test's process."""

from typer.testing import CliRunner

from fl_app.cli.app import app


def fl_app(*arguments, code=0):
    """Return the result of a command; ``code`` is the exit status that it must have, None for any."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert code is None or result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result
