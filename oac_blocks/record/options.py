# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of all commands that can record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MOST_MB = 1000.0

Record = Annotated[
    Path | None, typer.Option(help="Write every received round into this folder as SigMF, for oac-blocks replay.")
]
RecordMb = Annotated[
    float,
    typer.Option(min=0.0, help="With --record: megabytes that the folder may hold; the oldest rounds go first."),
]
