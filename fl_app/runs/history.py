# SPDX-License-Identifier: GPL-3.0-or-later
"""Offer the figures of all rounds of a run as a table."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import Any, overload

from fl_app.runs.metrics import RoundFigures


class History(Sequence[RoundFigures]):
    """Hold the figures of the rounds that were played, one row for each.

    Examples
    --------
    >>> x, y = np.eye(4, dtype=np.float32), np.arange(4)
    >>> run = oac.Experiment(lambda: torch.nn.Linear(4, 4), oac.Data((x, y), (x, y)), clients=2, k=2, air="ideal")
    >>> result = run.train(3)
    >>> history = run.history
    >>> len(history), history[-1].round
    (3, 2)
    >>> history.column("max_aou")
    [0, 1, 2]
    >>> history[1:].to_dict()["k"]
    [2, 2]
    >>> "test_accuracy" in history.columns  # to_csv and to_pandas have the same columns
    True
    """

    def __init__(self, rows: Sequence[RoundFigures]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RoundFigures]:
        return iter(self._rows)

    @overload
    def __getitem__(self, index: int) -> RoundFigures: ...

    @overload
    def __getitem__(self, index: slice) -> History: ...

    def __getitem__(self, index: int | slice) -> RoundFigures | History:
        return History(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns; the task's own figures of merit stand behind those of every run."""
        own = dict.fromkeys(name for row in self._rows for name in row.test_figures or {})
        return (*(field.name for field in fields(RoundFigures) if field.name != "test_figures"), *own)

    def column(self, name: str) -> list[Any]:
        """Return one figure of all rounds; None where a round did not measure it."""
        if name not in self.columns:
            raise ValueError(f"name must be one of {', '.join(self.columns)}, not {name!r}")
        return [_flat(row).get(name) for row in self._rows]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the table by columns."""
        return {name: self.column(name) for name in self.columns}

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame; ImportError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas, or use to_dict or to_csv") from None
        return pandas.DataFrame(self.to_dict())

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the table as a CSV file with a header; a figure that was not measured is empty."""
        with Path(path).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, self.columns, restval="")
            writer.writeheader()
            writer.writerows(_flat(row) for row in self._rows)

    def __repr__(self) -> str:
        last = f", test accuracy {self._rows[-1].test_accuracy}" if self._rows else ""
        return f"History({len(self)} rounds{last})"


def _flat(row: RoundFigures) -> dict[str, Any]:
    values = asdict(row)
    return {**{name: value for name, value in values.items() if name != "test_figures"}, **(row.test_figures or {})}
