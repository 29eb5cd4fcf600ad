# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure times that can be compared: the candidates take turns, and the median of each counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def median_seconds(candidates: Mapping[str, Callable[[], object]], turns: int = 7) -> dict[str, float]:
    """Return the median time of each candidate over ``turns`` turns in which all of them run, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(turns + 1):
        for name, call in candidates.items():
            begin = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}
