# SPDX-License-Identifier: GPL-3.0-or-later
"""Run `fl_app`, also as `python -m fl_app`. Signal handlers come first, as the other imports take a second or two."""

from fl_app.processes import interrupt


def main() -> None:
    interrupt.guard_process()
    from fl_app.cli.app import app

    app(prog_name="fl_app")


if __name__ == "__main__":
    main()
