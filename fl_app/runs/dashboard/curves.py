# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the figures of any number of rounds in a fixed number of buckets, so that memory and pages do not grow.

A bucket holds the mean over `stride` rounds, 1 at first. When all buckets are full, neighbours merge and the stride
doubles. A value that a round did not measure does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fl_app.runs.live.snapshot import number

MOST_BUCKETS = 1000
MOST_COLUMNS = 40  # figures of a task beyond this number are left out
COLUMNS = (
    "loss", "test_accuracy", "test_loss", "mean_aou", "max_aou", "participation", "vote_error_rate", "tie_share",
    "air_total", "air_seconds", "snr_db", "pmepr_db", "seconds", "missing_clients",
)  # fmt: skip


class Position(NamedTuple):
    """Say how far a reader has read: of which curves, in which buckets, how many rounds."""

    generation: int
    stride: int
    rounds: int


class Curves:
    """Hold the columns of `COLUMNS` and the task's own figures. ``generation`` tells the curves of two files apart."""

    def __init__(self, generation: int = 0, most: int = MOST_BUCKETS) -> None:
        self._most, self._generation = most + most % 2, generation
        self.stride, self.rounds, self.air_seconds = 1, 0, 0.0
        self.last: dict[str, Any] = {}  # the last round's figures
        self._names = {name: row for row, name in enumerate(COLUMNS)}
        self._sums = np.zeros((MOST_COLUMNS, self._most))
        self._counts = np.zeros((MOST_COLUMNS, self._most), np.int64)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the next round, a line of metrics.jsonl."""
        if self.rounds == self._most * self.stride:
            self._merge()
        self.air_seconds += row.get("air_seconds") or 0.0
        missing = (row.get("dropped_clients") or 0) + (row.get("absent_clients") or 0)
        values = {**row, **(row.get("test_figures") or {}), "air_total": self.air_seconds, "missing_clients": missing}
        for name in row.get("test_figures") or {}:
            if name not in self._names and len(self._names) < MOST_COLUMNS:
                self._names[name] = len(self._names)
        bucket = self.rounds // self.stride
        for name, place in self._names.items():
            value = values.get(name)
            if value is not None:
                self._sums[place, bucket] += value
                self._counts[place, bucket] += 1
        self.rounds += 1
        self.last = dict(row)

    def _merge(self) -> None:
        for table in (self._sums, self._counts):
            half = table[:, ::2] + table[:, 1::2]
            table[:, : self._most // 2], table[:, self._most // 2 :] = half, 0
        self.stride *= 2

    @property
    def position(self) -> Position:
        return Position(self._generation, self.stride, self.rounds)

    def since(self, position: Position | None) -> dict[str, Any]:
        """Return the buckets that have changed since a position, all of them if the curves are others now.

        ``x`` is the number of rounds played at the end of a bucket.
        """
        same = position is not None and position[:2] == self.position[:2] and position.rounds <= self.rounds
        first = position.rounds // self.stride if same and position is not None else 0
        stop = -(-self.rounds // self.stride)
        ends = [min((bucket + 1) * self.stride, self.rounds) for bucket in range(first, stop)]
        return {"first": first, "stride": self.stride, "rounds": self.rounds, "x": ends} | {
            "columns": {name: self._means(place, first, stop) for name, place in self._names.items()}
        }

    def _means(self, place: int, first: int, stop: int) -> list[float | None]:
        sums, counts = self._sums[place, first:stop], self._counts[place, first:stop]
        return [number(total / n) if n else None for total, n in zip(sums.tolist(), counts.tolist(), strict=True)]
