# SPDX-License-Identifier: GPL-3.0-or-later
"""Check run folders of the learning app: whether a run is whole, and whether two runs are the same."""

import numpy as np

from fl_app.runs.metrics import without_times


def assert_every_round_once(run, rounds):
    """Assert that no round is lost, none is counted twice, and the last one is saved."""
    assert [row.round for row in run.rows()] == list(range(rounds))
    assert run.latest().rounds_done == rounds


def assert_same_run(one, other, figures=without_times):
    """Assert that two runs have the same rows, as far as ``figures`` goes, and the same arrays, bit for bit."""
    assert [figures(row) for row in one.rows()] == [figures(row) for row in other.rows()]
    left, right = one.latest(), other.latest()
    assert left.rounds_done == right.rounds_done
    assert left.arrays.keys() == right.arrays.keys()
    for name, array in left.arrays.items():
        np.testing.assert_array_equal(array, right.arrays[name], err_msg=name)
