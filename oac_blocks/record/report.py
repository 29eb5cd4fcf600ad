# SPDX-License-Identifier: GPL-3.0-or-later
"""Replay recordings one by one, and show what came out as a table, as JSON or as an array of soft votes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from oac_blocks.record.files import read
from oac_blocks.record.replay import Replayed, replay

_FILE_WIDTH = 140  # width in characters of a table that goes into a file


def replay_all(paths: Sequence[Path]) -> list[Replayed]:
    """Return what the receiver hears in each recording; ``RecordError`` for the first that cannot be replayed."""
    return [replay(read(path)) for path in paths]


def save(file: Path, rounds: Sequence[Replayed]) -> None:
    """Write the soft votes of all payload rounds as an array of NumPy."""
    np.save(file, stacked(rounds), allow_pickle=False)


def shown(rounds: Sequence[Replayed], as_json: bool) -> str:
    """Return the result for a person, or as one JSON object."""
    equal = sum(one.is_equal for one in rounds)
    if as_json:
        counts = {"equal": equal, "different": len(rounds) - equal}
        return json.dumps({**counts, "rounds": [one.to_dict() for one in rounds]}, allow_nan=False)
    console = Console()
    console = console if console.is_terminal else Console(width=_FILE_WIDTH)
    with console.capture() as capture:
        console.print(table(rounds))
    verdict = "all equal" if equal == len(rounds) else f"{len(rounds) - equal} different"
    return f"{capture.get().rstrip()}\n{len(rounds)} rounds: {verdict}"


def stacked(rounds: Sequence[Replayed]) -> npt.NDArray[np.float32]:
    """Return the soft votes of all payload rounds, (rounds, votes); NaN fills rounds with fewer votes than others."""
    votes = [one.soft_votes for one in rounds if one.soft_votes is not None]
    table = np.full((len(votes), max(map(len, votes), default=0)), math.nan, np.float32)
    for row, own in zip(table, votes, strict=True):
        row[: len(own)] = own
    return table


def table(rounds: Sequence[Replayed]) -> Table:
    """Return a table with a row for each round."""
    names = ("file", "round", "kind", "votes", "symbols", "groups", "SNR, dB", "offsets, samples", "as recorded")
    grid = Table(*names, box=SIMPLE, padding=(0, 1, 0, 0))
    for one in rounds:
        values = one.to_dict()
        offsets = ", ".join(f"{client['client']}: {client['offset_samples']:+.3f}" for client in values["clients"])
        snr = values.get("snr_db")
        counts = [str(values.get(name, "-")) for name in ("votes", "symbols", "groups")]
        grid.add_row(
            one.path.name,
            str(values["round"]),
            values["kind"],
            *counts,
            "-" if snr is None else f"{snr:.1f}",
            offsets or "nobody was heard",
            one.verdict,
        )
    return grid
