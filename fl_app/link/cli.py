# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the link: server, client, keys, up."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add them to `fl_app`."""
