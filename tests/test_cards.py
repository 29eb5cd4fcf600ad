# SPDX-License-Identifier: GPL-3.0-or-later
"""What others' programs read about the project: CGRAN's cards, CITATION.cff, conda's recipe, the Dockerfile."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement

from tests.support.import_graph import imports_of, modules
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BLOCKS = sorted((ROOT / "oac_blocks" / "grc").glob("*.block.yml"))

# The types that GNU Radio's own check of a card asks for (grc/core/schema_checker/manifest.py of 3.10.12).
CARD = {
    "title": str, "version": str, "brief": str, "website": str, "dependencies": list, "repo": str,
    "copyright_owner": list, "gr_supported_version": list, "tags": list, "license": str, "description": str,
    "author": list, "icon": str, "file_format": int,
}  # fmt: skip


def card_of_markdown():
    head, _, description = (ROOT / "MANIFEST.md").read_text().partition("\n---\n")
    return {**yaml.safe_load(head), "description": description.strip()}


def card():
    return yaml.safe_load((ROOT / "MANIFEST.yml").read_text())


def test_the_card_has_the_types_that_gnu_radio_asks_for():
    assert {"title", "file_format"} <= set(card()) <= set(CARD)
    assert {key: type(value) for key, value in card().items()} == {key: CARD[key] for key in card()}
    assert all(isinstance(item, str) for value in card().values() if isinstance(value, list) for item in value)


def test_the_supported_version_is_a_text():
    """Without quotes 3.10 is read as the number 3.1."""
    assert yaml.safe_load("3.10") == 3.1
    assert card()["gr_supported_version"] == card_of_markdown()["gr_supported_version"] == ["3.10"]


def test_both_cards_say_the_same():
    newer = {key: card()[key] for key in card_of_markdown() if key != "description"}
    older = {key: value for key, value in card_of_markdown().items() if key != "description"}
    assert newer == older
    assert " ".join(card()["description"].split()) == " ".join(card_of_markdown()["description"].split())


def test_cards_and_citation_have_version_authors_and_licence_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    authors = [author["name"] for author in PROJECT["authors"]]
    assert card()["version"] == citation["version"] == PROJECT["version"]
    assert card()["author"] == [author["name"] for author in citation["authors"]] == authors
    assert card()["license"] == citation["license"] == PROJECT["license"]
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[1] == PROJECT["version"]


def test_the_citation_is_in_the_format_1_2_0():
    """What its schema demands, for the kinds of entries that stand there."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    known = {"cff-version", "message", "type", "title", "abstract", "authors", "version", "license", "keywords"}
    assert set(citation) - {"references"} <= known
    assert citation["type"] == "software"
    assert all(
        isinstance(value, str) for key, value in citation.items() if key not in ("authors", "keywords", "references")
    )
    for author in citation["authors"]:  # an entity; a person has names of other keys
        assert set(author) == {"name"}
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference) <= {"type", "title", "authors", "year", "url"}
        assert reference["type"] == "article"
        assert isinstance(reference["year"], int)
        assert all(set(author) == {"given-names", "family-names"} for author in reference["authors"])


def recipe():
    """The recipe as conda build renders it: names of the environment are empty, comments select a platform."""
    text = (ROOT / ".conda" / "recipe" / "meta.yaml").read_text()
    return yaml.safe_load(
        jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(text).render()
    )


CONDA_NAMES = {"matplotlib": "matplotlib-base", "msgpack": "msgpack-python", "torch": "pytorch"}


def test_the_recipe_has_the_dependencies_and_commands_of_the_project():
    asked = [Requirement(line) for line in PROJECT["dependencies"]]
    expected = {f"{CONDA_NAMES.get(one.name, one.name)} {one.specifier}" for one in asked}
    expected |= {"gnuradio 3.10.*", f"python {PROJECT['requires-python']}"}
    assert set(recipe()["requirements"]["run"]) == expected
    assert recipe()["package"] == {"name": "gnuradio-oac", "version": PROJECT["version"]}
    assert recipe()["build"]["entry_points"] == [f"{name} = {where}" for name, where in PROJECT["scripts"].items()]
    assert (ROOT / ".conda" / "recipe" / recipe()["source"]["path"] / "pyproject.toml").is_file()
    assert (ROOT / recipe()["about"]["license_file"]).is_file()


def test_the_recipe_tests_what_is_there():
    for name in recipe()["test"]["imports"]:
        assert name in modules()
    (block,) = [line for line in recipe()["test"]["commands"] if line.startswith("test -f")]
    assert block.split("/")[-1].split()[0] in {file.name for file in BLOCKS}


def test_the_recipe_installs_the_blocks_where_companion_looks(tmp_path):
    """Its script, with a pip that does nothing: the wheel has tests of its own."""
    pip = tmp_path / "python"
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    script = ROOT / ".conda" / "recipe" / "build.sh"
    environment = {**os.environ, "PYTHON": str(pip), "PREFIX": str(tmp_path)}
    subprocess.run(["bash", script], cwd=ROOT, env=environment, check=True)
    installed = tmp_path / "share" / "gnuradio"
    assert {file.name for file in (installed / "grc" / "blocks").iterdir()} == {file.name for file in BLOCKS}
    flowgraphs = {file.name for file in (ROOT / "grc_flows").glob("*.grc")}
    assert {file.name for file in (installed / "examples" / "oac").iterdir()} == flowgraphs


def test_the_environment_for_conda_has_all_dependencies():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    names = {re.split(r"[<>=]", entry)[0] for entry in listed}
    asked = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert {{**CONDA_NAMES, "matplotlib": "matplotlib"}.get(name, name) for name in asked} <= names
    assert "numpy>=1.26" in listed


def test_the_image_is_made_by_what_is_there():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert steps[0] == ["FROM", "debian:12-slim"]
    assert {name for name, _ in steps} <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "CMD"}
    (script,) = re.findall(r"bash (\S+)", text)
    assert (ROOT / script).is_file()
    assert ".venv" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_guide_for_contributors_names_what_is_there():
    """Paths between back quotes; NAME and `*` stand for names of one's own."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    roots = {path.name for path in ROOT.iterdir()} - {
        "runs",
        ".cache",
    }  # of runs and environments, not of the repository
    named = {word for word in re.findall(r"`([\w./-]+)`", text) if word.split("/")[0] in roots and "NAME" not in word}
    assert len(named) > 40
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


# Packages and the names that they are imported by, where these differ.
IMPORT_NAMES = {
    "pyadi-iio": "adi", "pylibiio": "iio", "mlflow-skinny": "mlflow", "pyzmq": "zmq",
}  # fmt: skip
# What pydantic and sigmf bring, what comes with GNU Radio, and what is used where users have it (to_pandas).
FROM_ELSEWHERE = {"annotated_types", "jsonschema", "gnuradio", "pmt", "gi", "PyQt5", "pandas"}


def imported():
    """The packages that our modules import anywhere in their code."""
    found = {name.partition(".")[0] for module in modules() for name in imports_of(module)}
    return found - {"oac_blocks", "fl_app", "calibration", "__future__"} - set(sys.stdlib_module_names)


def names_of(lines):
    return {IMPORT_NAMES.get(Requirement(line).name, Requirement(line).name) for line in lines}


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"dev"}))
def test_every_extra_has_code_behind_it(extra):
    # tensorboard is used through torch.
    used = imported() | {name for module in modules() for name in imports_of(module) if "tensorboard" in name}
    for name in names_of(PROJECT["optional-dependencies"][extra]):
        assert any(name in one for one in used), f"nothing imports {name} of the extra {extra}"


def test_every_import_is_of_a_package_that_is_asked_for():
    extras = [line for name, lines in PROJECT["optional-dependencies"].items() if name != "dev" for line in lines]
    asked = names_of([*PROJECT["dependencies"], *extras])
    assert imported() - asked - FROM_ELSEWHERE == set()
    assert "annotated_types" in packages_distributions(), "pydantic brings it"


def test_the_set_up_for_tests_has_what_the_extras_need():
    """All but what the tests skip where it is missing."""
    dev = names_of(PROJECT["optional-dependencies"]["dev"])
    for extra in ("ray", "record", "tensorboard", "web"):
        assert names_of(PROJECT["optional-dependencies"][extra]) <= dev
