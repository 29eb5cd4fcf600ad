# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that Companion makes of our flowgraphs."""

import pytest

from tests.blocks.companion.companion_core import FLOWS, compile_flows
from tests.support.sharing import made_once


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """``compiled(name)`` is the program of grc_flows/NAME.grc; all of them are compiled at once."""
    files = sorted(FLOWS.glob("*.grc"))
    folder = made_once(tmp_path_factory, "flows", lambda folder: compile_flows(files, folder))
    return lambda name: folder / f"{name}.py"
