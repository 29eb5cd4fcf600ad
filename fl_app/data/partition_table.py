# SPDX-License-Identifier: GPL-3.0-or-later
"""Count which client has how many training samples of which class, and keep the counts as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_CORNER = "client by "  # the head of the first column goes on with what the other columns are


@dataclass(frozen=True, eq=False)
class PartitionTable:
    """Hold the number of samples of each client and class.

    Attributes
    ----------
    counts : ndarray of int64, shape (clients, classes)
    names : tuple of str
        Names of the classes.
    strata_name : str
        What the columns are: classes, or groups that stand in for them.
    """

    counts: NDArray[np.int64]
    names: tuple[str, ...]
    strata_name: str = "class"

    @classmethod
    def count(
        cls,
        labels: NDArray[Any],
        parts: Sequence[NDArray[np.int64]],
        class_names: Sequence[str] | None = None,
        strata_name: str = "class",
    ) -> Self:
        """Count the samples of each client's part by their labels, which are whole numbers from 0."""
        labels = np.asarray(labels)
        classes = int(labels.max()) + 1 if class_names is None else len(class_names)
        names = map(str, range(classes)) if class_names is None else class_names
        counts = np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
        return cls(counts, tuple(names), strata_name)

    def csv_text(self) -> str:
        """Return a line for each client, with a column for each class."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([_CORNER + self.strata_name, *self.names])
        writer.writerows([client, *row] for client, row in enumerate(self.counts.tolist()))
        return stream.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> Self:
        """Return the table that `csv_text` wrote."""
        (corner, *names), *rows = csv.reader(io.StringIO(text))
        counts = np.array([[int(number) for number in row[1:]] for row in rows], np.int64)
        return cls(counts.reshape(len(rows), len(names)), tuple(names), corner.removeprefix(_CORNER))
