# SPDX-License-Identifier: GPL-3.0-or-later
"""For the tests of the learning app: small runs (a few hundred letters, a few rounds), and the real CIFAR-10."""

import os
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest

from fl_app.config import check
from tests.support.cifar10 import NoCifar10Error, cifar10_folder

TINY = {
    "run": {"seed": 3, "rounds": 4, "eval_every": 2, "checkpoint_every": 2, "workers": 0},
    "data": {"name": "letters", "limit": 300, "test_limit": 120},
    "clients": {"n": 3, "H": 2, "batch_size": 8},
    "server": {"lr": 0.001},
    "selection": {"rho": 0.2},
    "air": {"name": "fading"},
}


@pytest.fixture
def tiny():
    """Makes settings of a run of seconds, with sections of values changed: tiny(run={"rounds": 2})."""

    def make(**sections):
        return check(TINY, "tiny").with_values(**sections)

    return make


@pytest.fixture
def tiny_options():
    """The same run for the command line: a list of --set options."""
    return [f"--set={name}.{key}={value}" for name, values in TINY.items() for key, value in values.items()]


@pytest.fixture(scope="session")
def cifar10_root():
    """The folder that holds the real cifar-10-batches-py."""
    try:
        return cifar10_folder(Path(os.environ.get("GR_OAC_CACHE") or Path.home() / ".cache" / "gr-oac") / "tests")
    except NoCifar10Error as error:
        pytest.skip(str(error))


@pytest.fixture
def one_thread():
    """Torch computes on one thread, as in a worker."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def offline(monkeypatch):
    """No test touches the network; returns the list of attempts."""
    attempts = []

    def refuse(request, *_args, **_kwargs):
        attempts.append(request)
        raise URLError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return attempts


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Work in an empty folder, and restore torch's number of threads, which a command sets."""
    import torch

    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
