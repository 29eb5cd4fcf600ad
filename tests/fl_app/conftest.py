# SPDX-License-Identifier: GPL-3.0-or-later
"""Small runs for the tests of the learning app: a few hundred letters, a few rounds, seconds."""

import pytest

from fl_app.config import check

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
