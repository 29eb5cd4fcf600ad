# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/blocks.md names every block with its import path, ports and parameters, as Companion's descriptions do."""

import importlib
import importlib.util

import pytest
import yaml

from tests.blocks.companion.companion_core import DESCRIPTIONS, ROOT

PAGE = ROOT / "docs" / "blocks.md"
FILES = sorted(DESCRIPTIONS.glob("*.block.yml"))


def section_of(label):
    """The part of the page below a block's heading."""
    _, found, rest = PAGE.read_text().partition(f"\n### {label}\n")
    assert found, f"docs/blocks.md must have a section on {label}"
    return rest.partition("\n### ")[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".block.yml"))
def test_the_page_has_every_block_with_its_import_ports_and_parameters(file):
    description = yaml.safe_load(file.read_text())
    section = section_of(description["label"])
    statement = description["templates"]["imports"]
    assert f"`{statement}`" in section
    _, module, _, name = statement.split()
    assert callable(getattr(importlib.import_module(module), name))
    for parameter in description.get("parameters", []):
        assert f"| `{parameter['id']}` | {parameter['label']} |" in section
    for port in [*description.get("inputs", []), *description.get("outputs", [])]:
        assert f"| `{port.get('id') or port.get('label') or 0}` |" in section
    assert description["documentation"].strip() in section


def test_the_reference_is_what_its_script_makes():
    script = ROOT / "docs" / "figures" / "block_reference.py"
    spec = importlib.util.spec_from_file_location("block_reference", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert PAGE.read_text() == module.page_with(module.reference()), f"run {script}"


def test_the_table_of_blocks_has_them_all():
    table = PAGE.read_text().partition("### ")[0]
    for file in FILES:
        assert f"| {yaml.safe_load(file.read_text())['label']} |" in table
