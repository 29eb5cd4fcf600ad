# SPDX-License-Identifier: GPL-3.0-or-later
"""Every flowgraph in grc_flows: complete, compiled, run for ten seconds, opened by the real Companion."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.blocks.companion import DESCRIPTIONS, FLOWS, ROOT, load

RUN_SECONDS = 10
every_flow = pytest.mark.parametrize("file", sorted(FLOWS.glob("*.grc")), ids=lambda file: file.stem)


def call(*command, home, seconds=120):
    environment = {**os.environ, "HOME": str(home), "GRC_BLOCKS_PATH": str(DESCRIPTIONS), "PYTHONPATH": str(ROOT)}
    environment.pop("QT_QPA_PLATFORM", None)  # Xvfb is a screen
    return subprocess.run(
        list(map(str, command)), cwd=home, env=environment, capture_output=True, text=True, timeout=seconds
    )


@every_flow
def test_flow_is_valid_and_every_block_is_known(file):
    """Neither grcc nor Companion tells of a block that it does not know, and grcc not of an open port."""
    flow = load(file)
    flow.validate()
    assert [str(error) for error in flow.iter_error_messages()] == []
    assert flow.is_valid()
    assert [block.name for block in flow.blocks if block.is_dummy_block] == []


def compiled(file, folder):
    result = call(sys.executable, shutil.which("grcc"), "-o", folder, file, home=folder)
    assert result.returncode == 0, result.stderr
    assert ">>> Warning" not in result.stdout + result.stderr
    return folder / f"{file.stem}.py"


@every_flow
def test_flow_compiles(file, tmp_path):
    assert compiled(file, tmp_path).is_file()


@pytest.mark.slow
@every_flow
def test_flow_runs_without_an_error(file, tmp_path):
    """A flow whose block raised still ends with 0; what it logged tells."""
    program = compiled(file, tmp_path)
    ran = call("xvfb-run", "-a", "timeout", RUN_SECONDS, sys.executable, program, home=tmp_path)
    assert ran.returncode == 124, f"it ended by itself\n{ran.stdout}\n{ran.stderr}"
    for text in (":error:", "Traceback", "dropped a burst"):
        assert text not in ran.stdout + ran.stderr, ran.stdout + ran.stderr


@pytest.mark.slow
@every_flow
def test_companion_opens_and_draws_it(file, tmp_path):
    script = ROOT / "docs" / "figures" / "flowgraphs.py"
    drawn = call(sys.executable, script, file.stem, "--only", "canvas", "--to", tmp_path, home=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    picture = Path(tmp_path / f"{file.stem}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_every_flow_has_its_line_and_its_pictures():
    text = (FLOWS / "README.md").read_text()
    for file in FLOWS.glob("*.grc"):
        assert f"`{file.name}`" in text
        assert f"../docs/images/{file.stem}.png" in text
        assert (ROOT / "docs" / "images" / f"{file.stem}.png").is_file()
