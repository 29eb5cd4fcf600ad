# SPDX-License-Identifier: GPL-3.0-or-later
"""All errors that we define have one base, directly or through another of ours."""

import ast

from tests.support.import_graph import modules

BUILT_IN = {"Exception", "RuntimeError", "ValueError", "OSError"}


def errors():
    """Return name and bases of every exception that our packages define."""
    found = {}
    for file in modules().values():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if bases & (BUILT_IN | {"OacError"}) or any(base.endswith("Error") for base in bases):
                    found[node.name] = bases
    return found


def test_every_error_is_an_oac_error():
    ours = errors()
    assert {"ConfigError", "RadioError", "RunError", "WireError", "RadioRangeError"} <= ours.keys()
    public = {name: bases for name, bases in ours.items() if not name.startswith("_") and name != "OacError"}
    assert {name: bases for name, bases in public.items() if not bases & ours.keys()} == {}
