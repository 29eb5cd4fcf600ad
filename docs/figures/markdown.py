# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of the generated pages."""

from __future__ import annotations


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
