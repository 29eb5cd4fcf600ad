# SPDX-License-Identifier: GPL-3.0-or-later
"""The program `fl_app`, also as `python -m fl_app`. Signals come first: importing the rest takes a second or two."""

from fl_app.processes import interrupt


def main() -> None:
    interrupt.guard_process()
    from fl_app.cli.app import app

    app(prog_name="fl_app")


if __name__ == "__main__":
    main()
