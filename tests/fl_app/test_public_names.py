# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that ``import fl_app`` offers: each has an example that runs, and nothing is imported before its use."""

import ast
import doctest
import inspect
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import fl_app as oac
from tests.support.paths import ROOT

# What every example takes for granted; docs/api.md says so.
KNOWN = {"oac": oac, "np": np, "torch": torch}
SECTION = "Examples\n--------\n"


def examples_of(name, docstring):
    """Return the examples of a docstring's section, as one test."""
    text = inspect.cleandoc(docstring or "")
    assert SECTION in text, f"{name} has no section Examples"
    found = doctest.DocTestParser().get_doctest(text.partition(SECTION)[2], dict(KNOWN), name, None, 0)
    assert found.examples, f"the section Examples of {name} has no example"
    return found


def failures(test):
    """Run a test, and return what went wrong as a text."""
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=told.append)
    return "".join(told)


@pytest.mark.parametrize("name", oac.__all__)
def test_every_public_name_has_an_example_that_runs(name):
    test = examples_of(name, getattr(oac, name).__doc__)
    assert not any(one.options.get(doctest.SKIP) for one in test.examples)
    assert failures(test) == ""


def test_examples_of_methods_run():
    found = [
        (f"{name}.{method}", part.__doc__)
        for name in oac.__all__
        if inspect.isclass(getattr(oac, name))
        for method, part in inspect.getmembers(getattr(oac, name), inspect.isroutine)
        if SECTION in inspect.cleandoc(part.__doc__ or "") and (part.__module__ or "").startswith(("fl_app", "oac_"))
    ]
    assert "Experiment.from_config" in {name for name, _ in found}
    assert [failures(examples_of(name, text)) for name, text in found] == [""] * len(found)


def test_an_example_that_lies_is_found():
    assert "Expected" in failures(examples_of("lie", f"{SECTION}>>> 1 + 1\n3"))
    with pytest.raises(AssertionError, match="no example"):
        examples_of("empty", f"{SECTION}nothing")


def test_the_reference_lists_every_public_name_once():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: fl_app\.(\w+)$", text, re.MULTILINE)) == oac.__all__


def test_type_checkers_see_the_same_names():
    tree = ast.parse((ROOT / "fl_app" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name  # the mark of a name that is meant for others
            homes[alias.name] = node.module
    assert sorted(homes) == oac.__all__
    assert homes == oac._HOMES


def test_dir_lists_the_public_names():
    assert set(oac.__all__) <= set(dir(oac))
    assert len(dir(oac)) == len(set(dir(oac)))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fl_app' has no attribute 'Experimnt'"):
        _ = oac.Experimnt


def test_importing_the_package_imports_nothing_heavy():
    tell = "import fl_app, json, sys; dir(fl_app); print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", tell], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert "fl_app" in loaded
    assert not loaded & {"torch", "numpy", "pydantic", "gnuradio", "matplotlib"}
