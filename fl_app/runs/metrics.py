# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the figures of a round, one line of metrics.jsonl each, and summarise them over a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

# Wall-clock times. All other figures are the same, bit for bit, when a run is repeated.
TIMING_KEYS = ("train_seconds", "air_cpu_seconds", "seconds")


@dataclass(frozen=True)
class RoundFigures:
    """Hold the figures of one round. None means that this round did not measure the value.

    Attributes
    ----------
    round : int
        Round number t, from 0.
    k : int
        Number of entries sent; d in round 0.
    loss : float or None
        Mean over the local steps of the clients that transmitted.
    test_accuracy, test_loss : float or None
        After the round's update; the accuracy is 0..1.
    test_figures : dict or None
        The task's figures of merit besides the accuracy, by name.
    mean_aou, max_aou : float, int
        Age of update in rounds, over the d entries, after the round.
    participation : float
        Share of the d entries that were sent at least once after round 0, which sends all.
    dropped_clients, absent_clients : int
        Clients whose gradients were not finite; clients that did not take part or were not heard.
    vote_error_rate : float or None
        One-bit mode: share of received signs that differ from the true majority; ties do not count.
    votes_compared : int
        Number of entries that this rate is over.
    tie_share : float or None
        One-bit mode: share of the entries without a majority among the votes of the clients heard.
    symbols, air_seconds : int, float
        OFDM symbols on the air, and their duration.
    air_joules, air_hertz : float or None
        Energy that a client transmitted, the mean over the clients; bandwidth that was occupied.
    snr_db, pmepr_db : float or None
        SNR at the server, and the peak-to-mean envelope power ratio of the clients' symbols (99 % point).
    train_seconds, air_cpu_seconds, seconds : float
        Wall-clock time of waiting for the clients, processor time of the simulated air, wall-clock time of the round.
    downlink_bytes : int or None
        Over the link: mean over the clients; the model itself has 4d bytes.
    k_m : int or None
        Number of the entries sent that were selected by their magnitude, of policies that have such a number.

    Examples
    --------
    >>> x, y = np.eye(4, dtype=np.float32), np.arange(4)
    >>> run = oac.Experiment(lambda: torch.nn.Linear(4, 4), oac.Data((x, y), (x, y)), clients=2, k=2, air="ideal")
    >>> row, = run.rounds(1)
    >>> row.round, row.k, row.mean_aou
    (0, 20, 0.0)
    """

    round: int
    k: int
    loss: float | None
    test_accuracy: float | None
    test_loss: float | None
    mean_aou: float
    max_aou: int
    participation: float
    dropped_clients: int
    vote_error_rate: float | None
    votes_compared: int
    symbols: int
    air_seconds: float
    snr_db: float | None
    pmepr_db: float | None
    train_seconds: float
    air_cpu_seconds: float
    seconds: float
    # Older runs lack these figures; downlink_bytes has a value only over the link.
    absent_clients: int = 0
    downlink_bytes: int | None = None
    test_figures: dict[str, float | None] | None = None
    tie_share: float | None = None
    air_joules: float | None = None
    air_hertz: float | None = None
    k_m: int | None = None

    @property
    def is_tested(self) -> bool:
        """Say whether this round evaluated the model on the test set."""
        return self.test_accuracy is not None or self.test_loss is not None or self.test_figures is not None

    def line(self) -> str:
        """Return the round as one line of JSON; infinities and NaN, which JSON lacks, become null."""
        return json.dumps({key: _json_value(value) for key, value in asdict(self).items()}) + "\n"


def rows_from(values: Iterable[dict[str, Any]]) -> list[RoundFigures]:
    """Make rounds from dictionaries as `asdict` or a line of metrics.jsonl gives them."""
    return [RoundFigures(**value) for value in values]


def read_lines(text: str) -> list[RoundFigures]:
    """Return the rounds in metrics.jsonl up to the first incomplete line, which a killed run may leave."""
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
    """Return the figures that two runs with the same seed must share."""
    return {key: value for key, value in asdict(row).items() if key not in TIMING_KEYS}


def numbers_of(row: RoundFigures) -> dict[str, float]:
    """Return the figures that a round measured, as numbers by name, without the round's own number."""
    values = {**asdict(row), **{f"test_{name}": value for name, value in (row.test_figures or {}).items()}}
    return {
        name: value for name, value in values.items() if name not in ("round", "test_figures") and value is not None
    }


def summary(rows: Sequence[RoundFigures]) -> dict[str, Any]:
    """Summarise a run: the state after the last round, and sums over all rounds."""
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
        "test_loss": last_known([row.test_loss for row in rows]),
        "test_figures": next((row.test_figures for row in reversed(rows) if row.test_figures is not None), None),
        "loss": last_known([row.loss for row in rows]),
        "mean_aou": last.mean_aou,
        "max_aou": last.max_aou,
        "participation": last.participation,
        "vote_error_rate": errors / compared if compared else None,
        "votes_compared": compared,
        "tie_share": _mean_by_entries([(row.tie_share, row.k) for row in rows if row.tie_share is not None]),
        "dropped_clients": sum(row.dropped_clients for row in rows),
        "absent_clients": sum(row.absent_clients for row in rows),
        "downlink_bytes": last_known([row.downlink_bytes for row in rows]),
        "symbols": sum(row.symbols for row in rows),
        "air_seconds": sum(row.air_seconds for row in rows),
        "air_joules": _sum_if_known([row.air_joules for row in rows]),
        "air_hertz": last_known([row.air_hertz for row in rows]),
        "snr_db": _mean_power_db([row.snr_db for row in rows if row.snr_db is not None]),
        "pmepr_db": _mean([row.pmepr_db for row in rows if row.pmepr_db is not None]),
        "train_seconds": sum(row.train_seconds for row in rows),
        "air_cpu_seconds": sum(row.air_cpu_seconds for row in rows),
        "seconds": sum(row.seconds for row in rows),
    }


def last_known(values: Sequence[float | None]) -> float | None:
    """Return the latest value that was measured."""
    return next((value for value in reversed(values) if value is not None), None)


def _sum_if_known(values: Sequence[float | None]) -> float | None:
    """Return the sum over all rounds; None if a round, of an older version say, lacks its value."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _mean_by_entries(shares: Sequence[tuple[float, int]]) -> float | None:
    """Return the mean of shares over all entries of a run; each share comes with its round's number of entries."""
    entries = sum(k for _, k in shares)
    return sum(share * k for share, k in shares) / entries if entries else None


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean over the rounds that have a value: a single round has few symbols."""
    return sum(values) / len(values) if values else None


def _mean_power_db(values_db: Sequence[float]) -> float | None:
    """Return the mean power in dB over the rounds: in fading, the last round alone says little."""
    if not values_db:
        return None
    return 10 * math.log10(sum(10 ** (value / 10) for value in values_db) / len(values_db))


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
