# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/rooms.svg: the rooms of the three packages, and which room imports which.

.venv/bin/python docs/figures/rooms.py writes it anew; tests/test_rooms.py compares. An arrow is left out where a way
over other rooms says the same, and so are single modules beside the rooms (errors, say).
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
LANES = ("fl_app", "calibration", "oac_blocks")
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


def placed(edges: dict[str, set[str]]) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """Return the upper left corner of each room, and the size of the picture. Each package has a lane of its own."""
    floors = heights(edges)
    top = max(floors.values())
    places: dict[str, tuple[float, float]] = {}
    left = float(MARGIN)
    for package in LANES:
        rows = [[room for room in sorted(edges) if in_lane(room, package, floors, y)] for y in range(top + 1)]
        lane = max(map(len, rows)) * (WIDTH + GAP_X)
        for floor, row in enumerate(rows):
            first = left + (lane - len(row) * (WIDTH + GAP_X)) / 2
            for column, room in enumerate(row):
                places[room] = (first + column * (WIDTH + GAP_X), MARGIN + (top - floor) * (HEIGHT + GAP_Y))
        left += lane
    return places, (left - GAP_X + MARGIN, 2 * MARGIN + (top + 1) * (HEIGHT + GAP_Y) - GAP_Y)


def in_lane(room: str, package: str, floors: dict[str, int], floor: int) -> bool:
    return room.partition(".")[0] == package and floors[room] == floor


def rooms() -> dict[str, set[str]]:
    """Return the rooms that are folders, and which of them each imports."""
    folders = {room for room in graph() if ROOT.joinpath(*room.split(".")).is_dir()}
    return {room: set(targets) & folders for room, targets in graph().items() if room in folders}


def drawing() -> str:
    edges = rooms()
    places, size = placed(edges)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:g} {size[1]:g}" font-family="sans-serif" '
        'font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
        f'<rect width="{size[0]:g}" height="{size[1]:g}" fill="white"/>',
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
