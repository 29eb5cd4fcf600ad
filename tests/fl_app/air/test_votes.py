# SPDX-License-Identifier: GPL-3.0-or-later
"""Vote errors counted entry by entry, and expected entry by entry."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.air import expected_vote_error_rate, vote_error_rate


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 40))
def test_errors_are_those_of_a_count_entry_by_entry(seed, n_clients, k):
    rng = np.random.default_rng(seed)
    votes = rng.integers(-1, 2, (n_clients, k), np.int8)
    received = rng.integers(-1, 2, k).astype(np.float32)
    errors = compared = 0
    for q in range(k):
        balance = sum(int(vote) for vote in votes[:, q])
        if balance != 0:
            compared += 1
            errors += balance * received[q] <= 0
    assert vote_error_rate(votes, received) == (errors, compared)


@pytest.mark.parametrize(("snr", "repeats"), [(100.0, 1), (1.0, 1), (10.0, 3)])
def test_expected_rate_is_the_mean_of_designs_formula(snr, repeats):
    votes = np.random.default_rng(7).integers(-1, 2, (5, 300), np.int8)

    def of_entry(ballots):
        plus, minus = int(np.sum(ballots == 1)), int(np.sum(ballots == -1))
        p = (snr * min(plus, minus) + 1) / (snr * (plus + minus) + 2)
        return sum(math.comb(repeats - 1 + j, j) * p**repeats * (1 - p) ** j for j in range(repeats))

    decided = [of_entry(votes[:, q]) for q in range(votes.shape[1]) if votes[:, q].sum() != 0]
    assert expected_vote_error_rate(votes, snr, repeats) == pytest.approx(np.mean(decided), rel=1e-12)


def test_without_any_majority_nothing_is_compared():
    votes = np.array([[1, -1, 0], [-1, 1, 0]], np.int8)
    assert vote_error_rate(votes, np.ones(3, np.float32)) == (0, 0)
    assert math.isnan(expected_vote_error_rate(votes, 100.0))


def test_bad_votes_are_named():
    with pytest.raises(ValueError, match="votes must be an int8 array"):
        vote_error_rate(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match=r"received must be of shape \(3,\)"):
        vote_error_rate(np.ones((2, 3), np.int8), np.ones(4))
    with pytest.raises(ValueError, match=r"votes must be of shape \(N, k\)"):
        expected_vote_error_rate(np.ones(3, np.int8), 1.0)
