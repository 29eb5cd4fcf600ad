# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages that are made from the code are up to date, and pages that describe its names have all of them."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from docs.figures import cli_reference, config_reference, one_round
from fl_app.config import Settings
from fl_app.link import wire
from fl_app.runs.metrics import RoundFigures, summary
from fl_app.runs.report import FIGURES
from fl_app.runs.run_folder import RunFolder
from tests.support.paths import ROOT


def page(name):
    return (ROOT / "docs" / name).read_text()


def named(text):
    """All that stands between backticks."""
    return set(re.findall(r"`([^`]+)`", text))


@pytest.mark.parametrize("script", [cli_reference, config_reference, one_round], ids=lambda script: script.PAGE.name)
def test_a_generated_page_is_what_its_script_makes(script):
    assert script.PAGE.read_text() == script.page(), f"run .venv/bin/python {script.__file__}"


def test_the_config_page_has_every_key():
    text = page("reference/config.md")
    for section, part in Settings():
        keys = text.partition(f"\n## [{section}]\n")[2].partition("\n## ")[0]
        assert all(f"\n| `{key}` |" in keys for key in type(part).model_fields)


def test_the_wire_page_has_every_message_and_every_name_in_it():
    """Names are read where the code checks what came: `message.whole("d", ...)`."""
    text = page("reference/wire.md")
    sources = "".join(file.read_text() for file in (ROOT / "fl_app" / "link").glob("*.py"))
    bodies = set(re.findall(r'message\.(?:whole|number|amount|text|flag|array)\("(\w+)"', sources))
    types = set(re.findall(r'(?:_send\(session|_reply\(identity), "(\w+)"|_pack\(\s*"(\w+)"', sources))
    assert len(bodies) > 25
    assert len(types) > 10
    assert bodies | {name for pair in types for name in pair if name} <= named(text)
    assert set(wire.DTYPES) | wire._HEADER_KEYS <= named(text)
    assert f"version of the protocol, {wire.VERSION} " in text
    for limit in (wire.MAX_HEADER_BYTES, wire.MAX_ARRAYS, wire.MAX_BODY_FIELDS, wire.MAX_NAME_CHARS):
        assert f"{limit:,}" in text


def test_the_page_of_the_run_folder_has_every_file_and_figure():
    text = page("reference/run-folder.md")
    folder = RunFolder(ROOT)
    files = {path.name for path in vars(folder).values() if isinstance(path, Path) and path.suffix}
    assert {"config.toml", "sessions.json", "run.log"} <= files
    assert files - {ROOT.name} | {f"{name}.png" for name in FIGURES} <= named(text)
    assert {f"{folder.checkpoints.name}/", f"{folder.events.name}/"} <= named(text)
    figures = {field.name for field in fields(RoundFigures)}
    per_round, _, result = text.partition("## result.json")
    assert figures <= named(per_round)
    none_measured = RoundFigures(*[None if "None" in str(field.type) else 0 for field in fields(RoundFigures)])
    assert set(summary([none_measured])) <= named(result)
