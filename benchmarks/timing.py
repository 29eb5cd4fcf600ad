# SPDX-License-Identifier: GPL-3.0-or-later
"""Times that can be compared: the candidates take turns, and each is given its median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def median_seconds(candidates: Mapping[str, Callable[[], object]], turns: int = 7) -> dict[str, float]:
    """Median time of each candidate over ``turns`` rounds in which all of them run, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(turns + 1):
        for name, call in candidates.items():
            begin = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}
