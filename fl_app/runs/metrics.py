# SPDX-License-Identifier: GPL-3.0-or-later
"""A round's figures, one line of metrics.jsonl each, and what they come to over a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

# Wall-clock times: all other figures are the same, bit for bit, whenever a run is repeated.
TIMING_KEYS = ("train_seconds", "air_cpu_seconds", "seconds")


@dataclass(frozen=True)
class RoundFigures:
    """One round. None stands for what this round did not measure."""

    round: int  # t, from 0
    k: int  # entries sent; d in round 0
    loss: float | None  # mean over the local steps of the clients that were heard
    test_accuracy: float | None  # 0..1, after the round's update
    test_loss: float | None
    mean_aou: float  # rounds, over the d entries, after the round
    max_aou: int
    participation: float  # share of the d entries that were sent at least once after round 0, which sends all
    dropped_clients: int  # their gradients were not finite
    vote_error_rate: float | None  # one-bit: received sign against the true majority; ties do not count
    votes_compared: int
    symbols: int  # OFDM symbols on the air
    air_seconds: float  # how long they last
    snr_db: float | None
    pmepr_db: float | None
    train_seconds: float  # wall clock: waiting for the clients
    air_cpu_seconds: float  # processor time of the simulated air
    seconds: float  # wall clock: the whole round
    # Over the link alone; runs of before it was there lack them.
    absent_clients: int = 0  # not there, later than the deadline, or not heard
    downlink_bytes: int | None = None  # to each client, the mean; the model itself has 4d

    def line(self) -> str:
        """The round as one line of JSON; infinities and NaN, which JSON lacks, become null."""
        return json.dumps({key: _json_value(value) for key, value in asdict(self).items()}) + "\n"


def rows_from(values: Iterable[dict[str, Any]]) -> list[RoundFigures]:
    """Rounds from what `asdict` or a line of metrics.jsonl holds."""
    return [RoundFigures(**value) for value in values]


def read_lines(text: str) -> list[RoundFigures]:
    """Rounds from metrics.jsonl, up to the first line that is not whole (a run that was killed while writing it)."""
    names = {field.name for field in fields(RoundFigures)}
    needed = {field.name for field in fields(RoundFigures) if field.default is MISSING}
    rows: list[RoundFigures] = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            break
        if not isinstance(value, dict) or not needed <= value.keys() <= names or value["round"] != len(rows):
            break
        rows.append(RoundFigures(**value))
    return rows


def without_times(row: RoundFigures) -> dict[str, Any]:
    """What two runs of the same seed must share."""
    return {key: value for key, value in asdict(row).items() if key not in TIMING_KEYS}


def summary(rows: Sequence[RoundFigures]) -> dict[str, Any]:
    """A run in a few numbers: the state after the last round, and sums over all."""
    if not rows:
        return {"rounds": 0}
    last = rows[-1]
    accuracies = [row.test_accuracy for row in rows if row.test_accuracy is not None]
    compared = sum(row.votes_compared for row in rows)
    errors = sum((row.vote_error_rate or 0.0) * row.votes_compared for row in rows)
    return {
        "rounds": len(rows),
        "test_accuracy": accuracies[-1] if accuracies else None,
        "best_test_accuracy": max(accuracies, default=None),
        "loss": last_known([row.loss for row in rows]),
        "mean_aou": last.mean_aou,
        "max_aou": last.max_aou,
        "participation": last.participation,
        "vote_error_rate": errors / compared if compared else None,
        "votes_compared": compared,
        "dropped_clients": sum(row.dropped_clients for row in rows),
        "absent_clients": sum(row.absent_clients for row in rows),
        "downlink_bytes": last_known([row.downlink_bytes for row in rows]),
        "symbols": sum(row.symbols for row in rows),
        "air_seconds": sum(row.air_seconds for row in rows),
        "snr_db": _mean_power_db([row.snr_db for row in rows if row.snr_db is not None]),
        "pmepr_db": last_known([row.pmepr_db for row in rows]),
        "train_seconds": sum(row.train_seconds for row in rows),
        "air_cpu_seconds": sum(row.air_cpu_seconds for row in rows),
        "seconds": sum(row.seconds for row in rows),
    }


def last_known(values: Sequence[float | None]) -> float | None:
    """The latest value that was measured."""
    return next((value for value in reversed(values) if value is not None), None)


def _mean_power_db(values_db: Sequence[float]) -> float | None:
    """Of rounds whose channels fade: the last one alone says little."""
    if not values_db:
        return None
    return 10 * math.log10(sum(10 ** (value / 10) for value in values_db) / len(values_db))


def _json_value(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
