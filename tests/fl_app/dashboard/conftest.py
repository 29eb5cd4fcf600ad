# SPDX-License-Identifier: GPL-3.0-or-later
"""For the tests of the live page: folders with runs that are written without training, and the real server."""

import re

import pytest

from tests.support.live_runs import WrittenRun
from tests.support.processes import FL_APP, Program


@pytest.fixture
def runs_root(tmp_path):
    """The folder of the runs."""
    return tmp_path / "runs"


@pytest.fixture
def write_run(tiny, runs_root):
    """Make a run in the folder of runs: write_run("name")."""
    made = []

    def make(name, rounds=50, **options):
        made.append(WrittenRun(runs_root / name, tiny(run={"rounds": rounds}), **options))
        return made[-1]

    yield make
    for run in made:
        run.close()


class PageServer(Program):
    """The command `fl_app dashboard` on a folder, on any free port."""

    def __init__(self, folder, *options):
        self.root = folder / "runs"
        super().__init__([*FL_APP, "dashboard", self.root, "--port", 0, *options], folder, "dashboard")
        self.says("http://")
        self.url = re.search(r"http://[^\s#]+", self.err)[0]
        self.port = int(re.search(r":(\d+)/", self.url)[1])


@pytest.fixture(scope="session")
def page_server(tmp_path_factory):
    """One server for all tests that need no options; each test has runs of its own in its folder."""
    pytest.importorskip("starlette", reason="needs the extra web: pip install 'gr-oac[web]'")
    with PageServer(tmp_path_factory.mktemp("dashboard")) as server:
        yield server


@pytest.fixture
def start_server(tmp_path):
    """Start a server with options: start_server("--token", "...")."""
    started = []

    def start(*options):
        started.append(PageServer(tmp_path, *options))
        return started[-1]

    yield start
    for server in started:
        server.close()
