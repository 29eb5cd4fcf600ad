# SPDX-License-Identifier: GPL-3.0-or-later
"""Companion's core without its window: what it makes of our descriptions and flowgraphs."""

from functools import cache
from pathlib import Path

from gnuradio import gr
from gnuradio.grc.core.platform import Platform

ROOT = Path(__file__).resolve().parents[2]
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
