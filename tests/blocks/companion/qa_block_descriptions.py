# SPDX-License-Identifier: GPL-3.0-or-later
"""Every description in oac_blocks/grc: known to Companion, its defaults make a block, its callbacks are the setters."""

import importlib
import inspect

import pytest
import yaml
from gnuradio.grc.core import schema_checker
from markdown.extensions.toc import slugify

from oac_blocks.companion.program import documentation_url
from tests.blocks.companion.companion_core import DESCRIPTIONS, FLOWS, ROOT, block_with_defaults, platform

FILES = sorted(DESCRIPTIONS.glob("*.block.yml"))
every_description = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".block.yml"))


@pytest.fixture
def flow_graph():
    return platform().make_flow_graph()


def block_of(file, flow_graph):
    """The block as dragged from the list, and the class that its template imports: `from module import class`."""
    block = block_with_defaults(file.name.removesuffix(".block.yml"), flow_graph)
    _, module, _, name = block.templates.render("imports").split()
    return block, getattr(importlib.import_module(module), name)


@every_description
def test_users_find_it_and_its_texts(file):
    description = yaml.safe_load(file.read_text())
    assert description["id"] == file.name.removesuffix(".block.yml")
    assert description["category"] == "[OAC]"
    assert len(description["documentation"]) > 100
    assert all(parameter["label"] and "default" in parameter for parameter in description.get("parameters", []))


@every_description
def test_its_documentation_has_a_place_on_the_page_of_blocks(file):
    """A page below the start of the documentation; GNU Radio before 3.10.9 passes the key over."""
    description = yaml.safe_load(file.read_text())
    assert description["doc_url"] == f"blocks.html#{slugify(description['label'], '-')}"
    assert f"\n### {description['label']}\n" in (ROOT / "docs" / "blocks.md").read_text()
    checker = schema_checker.Validator(schema_checker.BLOCK_SCHEME)
    assert checker.run(description)
    assert {message.type for message in checker.messages} <= {"warn"}


@every_description
def test_it_has_a_place_in_a_flowgraph(file):
    name = file.name.removesuffix(".block.yml")
    flowgraphs = [yaml.safe_load(flowgraph.read_text()) for flowgraph in FLOWS.glob("*.grc")]
    assert any(block["id"] == name for flowgraph in flowgraphs for block in flowgraph["blocks"])


def test_the_page_of_blocks_is_on_this_machine_in_a_checkout():
    """As it was built, if it was, else its source."""
    page = documentation_url("blocks.html#trigger-source")
    built = ROOT / "site" / "blocks.html"
    assert page == (f"{built.as_uri()}#trigger-source" if built.is_file() else (ROOT / "docs" / "blocks.md").as_uri())
    assert documentation_url("no_such_page.html#x") == ""


@every_description
def test_defaults_are_valid_and_make_a_block(file, flow_graph):
    block, cls = block_of(file, flow_graph)
    block.validate()
    assert [text for _, text in block.iter_error_messages() if text != "Port is not connected."] == []
    assert isinstance(eval(block.templates.render("make"), {cls.__name__: cls}), cls)


@every_description
def test_defaults_are_those_of_the_class(file, flow_graph):
    block, cls = block_of(file, flow_graph)
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in block.params and parameter.default is not inspect.Parameter.empty:
            assert block.params[name].get_evaluated() == parameter.default, name


@every_description
def test_callbacks_are_all_the_setters(file, flow_graph):
    block, cls = block_of(file, flow_graph)
    ours = [part for part in cls.__mro__ if part.__module__.startswith("oac_blocks")]
    setters = {name for part in ours for name in vars(part) if name.startswith("set_")}
    assert {call.partition("(")[0] for call in block.templates.get("callbacks", [])} == setters
