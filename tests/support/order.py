# SPDX-License-Identifier: GPL-3.0-or-later
"""Order the tests of a run."""


def early_first(items, workers, is_early):
    """Return the items in a new order: one run per worker, and each run begins with its share of the early items.

    The order within the early items, and within the others, stays.
    """
    early = [item for item in items if is_early(item)]
    others = [item for item in items if not is_early(item)]
    ordered, taken = [], 0
    for worker in range(workers):
        first = early[worker::workers]
        # pytest-xdist cuts the list at these places.
        room = len(items) * (worker + 1) // workers - len(items) * worker // workers
        more = max(0, room - len(first)) if worker + 1 < workers else len(others)
        ordered += first + others[taken : taken + more]
        taken += more
    return ordered
