# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute on several cores and return the results in order, so that they do not depend on the number of cores.

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
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return ``[function(item) for item in items]``, computed on all cores."""
    some = list(items)
    if cores() == 1 or len(some) <= 1:
        return [function(item) for item in some]
    return list(_pool(os.getpid(), cores()).map(function, some))


@lru_cache(maxsize=1)
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Return the pool of this process; each process needs its own, as threads do not survive a fork."""
    return ThreadPoolExecutor(threads, "air")
