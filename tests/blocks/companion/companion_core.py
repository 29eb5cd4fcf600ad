# SPDX-License-Identifier: GPL-3.0-or-later
"""Companion's core without its window: what it makes of our descriptions and flowgraphs."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from gnuradio import gr
from gnuradio.grc.core import Constants
from gnuradio.grc.core.platform import Platform

from tests.support.paths import ROOT
from tests.support.polling import DEADLINE_SECONDS

DESCRIPTIONS = ROOT / "oac_blocks" / "grc"
FLOWS = ROOT / "grc_flows"


@cache
def platform() -> Platform:
    version = (gr.major_version(), gr.api_version(), gr.minor_version())
    result = Platform(version=gr.version(), version_parts=version, prefs=gr.prefs())
    gnuradios_own = gr.prefs().get_string("grc", "global_blocks_path", "").split(":")
    result.build_library([*gnuradios_own, str(DESCRIPTIONS)])
    return result


def block_with_defaults(name, flow_graph):
    """A block as it is when dragged from the list. It holds its flowgraph by a weak reference only: keep that."""
    block = flow_graph.new_block(name)
    block.params["id"].set_value(f"{name}_0")
    block.rewrite()
    return block


def load(file):
    """A flowgraph as Companion opens it."""
    return platform().make_flow_graph(str(file))


def call(*command, home, seconds=DEADLINE_SECONDS):
    """Run a program as a user would, with a home of its own and a screen to come."""
    environment = {**os.environ, "HOME": str(home), "GRC_BLOCKS_PATH": str(DESCRIPTIONS), "PYTHONPATH": str(ROOT)}
    environment.pop("QT_QPA_PLATFORM", None)  # Xvfb is a screen
    copy_block_cache(home)
    return subprocess.run(
        list(map(str, command)), cwd=home, env=environment, capture_output=True, text=True, timeout=seconds
    )


def copy_block_cache(home):
    """Give a home the descriptions that Companion has read before: to read all of them again takes it seconds."""
    kept, own = Path(Constants.CACHE_FILE), home / ".cache" / "grc_gnuradio" / Path(Constants.CACHE_FILE).name
    if kept.is_file() and not own.exists():
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, own)  # its time decides which descriptions have changed since


def compile_flows(files, folder):
    """Have Companion's compiler make programs of flowgraphs; it reads the descriptions of all blocks once for all."""
    result = call(sys.executable, shutil.which("grcc"), "-o", folder, *files, home=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ">>> Warning" not in result.stdout + result.stderr
