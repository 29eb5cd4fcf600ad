# SPDX-License-Identifier: GPL-3.0-or-later
"""Set up every test: one thread per library, no window, no deadline on a busy machine."""

import gc
import importlib.util
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.order import early_first
from tests.support.processes import Program

# Set before numpy and torch are imported. `make test` runs one worker per core, and a pool of threads in each worker
# makes all of them slower.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# A shell starts a background job (`make test &`) with SIGINT ignored, and all programs that tests start would inherit
# that: none of them would end at Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where there is no GNU Radio (`make test-numpy2`), the tests that run blocks or flowgraphs are left out. Others that
# need it for a few of their cases skip these.
NEED_GNU_RADIO = (
    "bench",
    "blocks",
    "fl_app/air/live/test_gnuradio.py",
    "fl_app/cli/test_radio_command.py",
    "fl_app/link/radio",
)
collect_ignore = [] if importlib.util.find_spec("gnuradio") else list(NEED_GNU_RADIO)

# pytest-timeout sets the time limits. In CI the examples are the same in every run, so that a failure repeats.
settings.register_profile("gr-oac", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("gr-oac")


@pytest.hookimpl(trylast=True)  # deselected tests have been removed before
def pytest_collection_modifyitems(items):
    """Begin the tests marked `early` first, so that none of them is left when the other workers have ended.

    pytest-xdist gives each worker a run of neighbours of this list, and later moves the ends of these runs between
    workers. So each run begins with its share of the early tests.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    items[:] = early_first(items, workers, lambda item: item.get_closest_marker("early") is not None)


def pytest_collection_finish():
    """Let the collector pass over all that was imported, in each test and at the end."""
    gc.freeze()


@pytest.fixture
def short_folder():
    """Make a folder for Unix sockets, whose paths must be short, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="oac-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def program(tmp_path_factory):
    """Start programs: ``program(command, **options)`` is a :class:`Program`. All are killed at the end."""
    folder, started = tmp_path_factory.mktemp("programs"), []

    def start(command, **options):
        started.append(Program(command, folder, f"{len(started)}", **options))
        return started[-1]

    yield start
    for one in started:
        one.close()
