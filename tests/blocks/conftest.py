# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that Companion makes of our flowgraphs, made once for all tests and all of pytest's workers."""

import fcntl
import os

import pytest

from tests.blocks.companion import FLOWS, compile_flows


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """``compiled(name)`` is the program of grc_flows/NAME.grc."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "flows"
    with (shared / "flows.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = shared / "flows-in-the-making"
            making.mkdir()
            compile_flows(sorted(FLOWS.glob("*.grc")), making)
            making.rename(folder)
    return lambda name: folder / f"{name}.py"
