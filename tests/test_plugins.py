# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts by name: built-in ones, those of installed packages, import strings, and objects of this process."""

import subprocess
import sys

import pytest

from oac_blocks.plugins import (
    OWN,
    PluginError,
    Registry,
    call,
    import_string_of,
    is_import_string,
    load_object,
)
from tests.support.paths import ROOT


def registry():
    return Registry("colour", "gr_oac_test.colours", {"fair-k": "fractions:Fraction"}, aliases={"third": "fair-k"})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with entry points, as pip leaves it: a module, and a folder that describes it."""
    (tmp_path / "own_colours.py").write_text("def blue(depth=1):\n    return 'blue' * depth\n")
    about = tmp_path / "own_colours-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-colours\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[gr_oac_test.colours]\nblue = own_colours:blue\nfair-k = own_colours:blue\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_colours", None)


@pytest.mark.usefixtures("package")
def test_installed_packages_offer_parts_by_entry_points():
    parts = registry()
    assert parts.names() == ("fair-k", "blue")
    assert parts.load("blue")(2) == "blueblue"
    assert [(offer.name, offer.origin, offer.target) for offer in parts.offers()] == [
        ("fair-k", OWN, "fractions:Fraction"),  # a package does not replace a built-in part
        ("blue", "own-colours", "own_colours:blue"),
    ]


@pytest.mark.parametrize("spelled", ["fair-k", "FairK", "fair_k", "third"])
def test_names_are_found_in_any_spelling(spelled):
    assert registry().canonical(spelled) == "fair-k"
    assert registry().load(spelled).__name__ == "Fraction"


def test_an_import_string_needs_no_registration():
    assert registry().load("math:floor")(1.5) == 1
    assert registry().load("fractions:Fraction.from_float")(0.5).denominator == 2


def test_objects_are_registered_for_this_process_alone():
    parts = registry()
    parts.register("red", print)
    assert parts.load("red") is print
    with pytest.raises(ValueError, match="colour 'red' must have a name that is free; there are fair-k, red"):
        parts.register("red", print)
    parts.unregister("red")
    with pytest.raises(PluginError, match="unknown colour 'red'"):
        parts.load("red")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.parts:x", "there is no module 'nowhere' among the installed packages or in"),
        ("math:flor", "the module math has no 'flor'; did you mean 'floor'?"),
        ("not an import:string", "is no import string; write package.module:attribute"),
        ("python:Net", "was an object of a Python program, which a config cannot name"),
        ("fair-l", "did you mean 'fair-k'"),
    ],
)
def test_a_part_that_cannot_be_had_is_named_in_one_sentence(name, sentence):
    with pytest.raises(PluginError) as caught:
        registry().load(name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_raises_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_part.py").write_text("raise RuntimeError('two\\nlines')")
    (tmp_path / "needy_part.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="importing broken_part raised RuntimeError: two lines"):
        load_object("broken_part:x")
    with pytest.raises(PluginError, match="the module needy_part needs 'no_such_thing', which is missing"):
        load_object("needy_part:x")


def test_an_installed_command_finds_modules_of_the_current_folder(tmp_path):
    (tmp_path / "beside.py").write_text("answer = 42")
    code = f"import sys; sys.path[:] = [{str(ROOT)!r}] + [p for p in sys.path if p]\n"
    code += "from oac_blocks.plugins import load_object; print(load_object('beside:answer'))"
    told = subprocess.check_output([sys.executable, "-I", "-c", code], cwd=tmp_path, text=True)
    assert told.strip() == "42"


def build(width, classes=2, *, seed=0):
    return width, classes, seed


def test_a_factory_gets_the_facts_that_it_asks_for():
    assert call(build, "x", {"width": 3}, {"classes": 9, "other": 1}) == (3, 9, 0)
    assert call(build, "x", {"width": 3, "classes": 4}, {"classes": 9}) == (3, 4, 0)  # a user's word counts
    assert call(lambda **given: given, "x", {"a": 1}, {"classes": 9}) == {"a": 1}
    assert call(lambda _root: _root, "x", {}, {"root": 5}) == 5


@pytest.mark.parametrize(
    ("factory", "args", "sentence"),
    [
        (build, {}, r"\[x\]: build\(\) needs a value for 'width'; set it in args \(known here: classes\)"),
        (build, {"widht": 1}, r"\[x\]: build\(\) has no argument 'widht'; there are seed, width"),
        (lambda: 1 / 0, {}, r"\[x\]: <lambda>\(\) raised ZeroDivisionError: division by zero"),
        (3, {}, r"\[x\]: this is an object of type int, which cannot be called"),
    ],
)
def test_a_call_that_fails_is_one_sentence(factory, args, sentence):
    with pytest.raises(PluginError, match=sentence):
        call(factory, "[x]", args, {"classes": 9})


@pytest.mark.parametrize("text", ["a:b", "a.b:c", "a.b:c.d", "_x1:y_2"])
def test_import_strings_are_told_by_their_form(text):
    assert is_import_string(text)


@pytest.mark.parametrize(
    "text", ["a", "a:", ":b", "a:b:c", "a b:c", "1a:b", "a..b:c", "ip:192.168.2.1", "a:b()", "a:b\n"]
)
def test_other_texts_are_no_import_strings(text):
    assert not is_import_string(text)


def test_import_strings_of_objects():
    assert import_string_of(build) == f"{__name__}:build"
    assert import_string_of(lambda: 1) is None
    assert import_string_of(3) is None
