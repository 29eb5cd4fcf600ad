# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the sizes that something is built from."""

from __future__ import annotations


def check_sizes(low: int, **given: float) -> None:
    """Raise ValueError for the first of the sizes that is below `low`; the message has its name and value."""
    for name, value in given.items():
        if value < low:
            raise ValueError(f"{name} must be {low} or more, not {value}")
