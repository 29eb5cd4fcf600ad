# SPDX-License-Identifier: GPL-3.0-or-later
"""A class name stands for one thing in the three packages, so that an error message or a search finds the right one."""

import ast
import collections
import functools

from tests.support.paths import ROOT

PACKAGES = ("oac_blocks", "calibration", "fl_app")


@functools.cache
def places():
    """Return the modules in which each class is defined, by its name."""
    found = collections.defaultdict(set)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].add(path.relative_to(ROOT).as_posix())
    return found


def test_no_class_name_exists_twice():
    twice = {name: sorted(modules) for name, modules in places().items() if len(modules) > 1}
    assert twice == {}


def test_the_search_sees_classes():
    assert places()["PlutoRadio"] == {"oac_blocks/radio/pluto.py"}
    assert places()["SharedAir"] == {"oac_blocks/radio/virtual/air/shared_air.py"}
