# SPDX-License-Identifier: GPL-3.0-or-later
"""Work on several cores, results in order: what is made of them then does not depend on how many cores there are.

NumPy and SciPy let other threads run while they compute, so threads are enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[function(item) for item in items]``, on all cores."""
    some = list(items)
    if cores() == 1 or len(some) <= 1:
        return [function(item) for item in some]
    return list(_pool(os.getpid(), cores()).map(function, some))


@lru_cache(maxsize=1)
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """One for each process: threads do not survive a fork."""
    return ThreadPoolExecutor(threads, "air")
