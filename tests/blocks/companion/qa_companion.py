# SPDX-License-Identifier: GPL-3.0-or-later
"""Companion as `make companion` starts it: what it draws, what it asks, and where it writes."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oac_blocks.cli import app
from tests.blocks.companion.companion_core import FLOWS, ROOT, call


@pytest.mark.early
def test_all_canvases_are_clean(tmp_path):
    """The real Companion draws them all: no error, no unknown block, no overlap, no wire across a block or comment."""
    script = ROOT / "docs" / "figures" / "flowgraphs.py"
    drawn = call(sys.executable, script, "--only", "canvas", "--to", tmp_path, home=tmp_path, seconds=280)
    assert drawn.returncode == 0, drawn.stderr
    for file in FLOWS.glob("*.grc"):
        picture = Path(tmp_path / f"{file.stem}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 20_000


def test_run_asks_for_no_terminal_and_leaves_no_program_beside_the_flowgraph(tmp_path):
    """The program prints into Companion's console, where one reads why it ended."""
    before = sorted(FLOWS.iterdir())
    driver = Path(__file__).with_name("run_in_companion.py")
    flow = FLOWS / "oac_client_pluto.grc"
    ran = call("env", "-u", "XDG_CACHE_HOME", "xvfb-run", "-a", sys.executable, driver, flow, home=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "doc_url" not in ran.stderr, "a warning for each block"
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["dialogs"] == []
    program = tmp_path / ".cache" / "gr-oac" / "flowgraphs" / "oac_client_pluto.py"
    assert seen["program"] == str(program)
    assert program.is_file()
    assert "frequency-hz must be one that you may transmit on" in seen["console"]
    assert sorted(FLOWS.iterdir()) == before


@pytest.mark.parametrize("name", ["fsk_mv_linc", "grc_flows/none.grc"])
def test_a_flowgraph_that_is_not_there_is_named(name):
    result = CliRunner().invoke(app, ["companion", name])
    assert result.exit_code == 2
    assert f"got {name}" in result.output
    assert "fsk_mv_link" in result.output


def test_without_a_screen_it_says_so(tmp_path):
    ran = call("env", "-u", "DISPLAY", "-u", "WAYLAND_DISPLAY", sys.executable, "-c",
               "from oac_blocks.cli import app; app()", "companion", home=tmp_path)  # fmt: skip
    assert ran.returncode == 1
    assert "oac-blocks companion: Companion must have a screen" in ran.stderr
