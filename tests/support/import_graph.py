# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the imports of our packages from the source, and tell which room imports which.

A room is a folder that answers one question (``oac_blocks.loop``, ``fl_app.core``); ``oac_blocks.dsp`` has rooms of its
own. Modules beside the rooms (``fl_app.config``) count as rooms. A folder's ``__init__`` that only passes names on is a
door: the rooms behind it must not use it, and it is left out of the graph.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = ("oac_blocks", "calibration", "fl_app")
DEEPER = ("oac_blocks.dsp",)  # folders whose own folders are rooms
FLAT = ("calibration",)  # packages that are one room
DOORS = {"oac_blocks", "oac_blocks.dsp", "oac_blocks.dsp.preamble", "fl_app", "fl_app.selection", "fl_app.__main__"}


@cache
def modules() -> dict[str, Path]:
    """Return all modules of our packages, and their files."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    return dict(sorted(names.items()))


@cache
def imports_of(module: str) -> frozenset[str]:
    """Return every module that this one names in an import, wherever in its code; of ours, the module itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found.update(full if full in modules() else node.module for full in whole.values())
    return frozenset(found)


def room_of(module: str) -> str:
    """Return the room that a module stands in."""
    parts = module.split(".")
    if parts[0] in FLAT:
        return parts[0]
    depth = 3 if module.startswith(tuple(f"{name}." for name in DEEPER)) else 2
    room = ".".join(parts[:depth])
    is_folder = (ROOT / Path(*parts[:depth])).is_dir()
    if depth == 3 and not is_folder:
        return ".".join(parts[:2])  # the maths beside the rooms of dsp
    return room


def rooms() -> list[str]:
    """Return all rooms. This reads no module, so that pytest can list the tests of the rooms at once."""
    return list(dict.fromkeys(room_of(module) for module in modules() if module not in DOORS))


@cache
def graph() -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return for each room the rooms that it imports, with the modules that do."""
    edges: dict[str, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for module in modules():
        if module in DOORS:
            continue
        edges[room_of(module)]  # a room without imports is there, too
        for target in imports_of(module):
            if target in modules() and room_of(target) != room_of(module):
                edges[room_of(module)][room_of(target)].append((module, target))
    return {room: dict(targets) for room, targets in edges.items()}
