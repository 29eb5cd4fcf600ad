# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/rooms.svg: the rooms of the three packages, and which room imports which.

.venv/bin/python docs/figures/rooms.py writes it anew; tests/test_rooms.py compares. An arrow is left out where a way
over other rooms says the same.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support.import_graph import graph  # noqa: E402  (the repository is no installed package)

OUT = ROOT / "docs" / "images" / "rooms.svg"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 132, 34, 26, 58, 20
COLOURS = {"oac_blocks": "#cfe3f5", "calibration": "#fbe3c0", "fl_app": "#d5ecd0"}


def heights(edges: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room: one above the highest that it imports."""
    floors: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in floors:
            floors[room] = 1 + max((floor(target) for target in edges[room]), default=-1)
        return floors[room]

    for room in sorted(edges):
        floor(room)
    return floors


def needed(edges: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Return the arrows that no way over other rooms stands for."""

    def reaches(start: str, goal: str) -> bool:
        return any(step == goal or reaches(step, goal) for step in edges[start])

    return {
        (room, target)
        for room, targets in edges.items()
        for target in targets
        if not any(other != target and reaches(other, target) for other in targets)
    }


def drawing() -> str:
    edges = {room: set(targets) for room, targets in graph().items()}
    floors = heights(edges)
    rows = [sorted(room for room in edges if floors[room] == floor) for floor in range(max(floors.values()) + 1)]
    widest = max(map(len, rows))
    size = (2 * MARGIN + widest * (WIDTH + GAP_X) - GAP_X, 2 * MARGIN + len(rows) * (HEIGHT + GAP_Y) - GAP_Y)
    places = {}
    for floor, row in enumerate(rows):
        left = (size[0] - len(row) * (WIDTH + GAP_X) + GAP_X) / 2
        for column, room in enumerate(row):
            places[room] = (left + column * (WIDTH + GAP_X), size[1] - MARGIN - HEIGHT - floor * (HEIGHT + GAP_Y))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" '
        'font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
        f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>',
    ]
    for room, target in sorted(needed(edges)):
        (x1, y1), (x2, y2) = places[room], places[target]
        parts.append(
            f'<line x1="{x1 + WIDTH / 2:g}" y1="{y1 + HEIGHT:g}" x2="{x2 + WIDTH / 2:g}" y2="{y2:g}" stroke="#555" '
            'stroke-width="1.1" marker-end="url(#tip)"/>'
        )
    for room in sorted(places):
        x, y = places[room]
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
            f'fill="{COLOURS[room.partition(".")[0]]}" stroke="#333"/>'
            f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 4:g}" text-anchor="middle">'
            f"{escape(room.replace('oac_blocks', 'oac'))}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(drawing())
    else:
        OUT.write_text(drawing(), encoding="utf-8")
