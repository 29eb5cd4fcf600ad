# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clients take part in a round, and how much they count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.core.participation import participants, size_weights
from fl_app.core.streams import stream
from oac_blocks.dsp.waveform.schemes import scheme_named


@given(st.integers(0, 2**32), st.integers(0, 10_000), st.integers(1, 60), st.floats(0.001, 1))
def test_a_share_of_the_clients_in_order(seed, t, n_clients, fraction):
    chosen = participants(seed, t, n_clients, fraction)
    assert chosen.dtype == np.int64
    assert chosen.size == max(1, round(fraction * n_clients))
    assert sorted(set(chosen.tolist())) == chosen.tolist()
    assert chosen[0] >= 0
    assert chosen[-1] < n_clients
    np.testing.assert_array_equal(participants(seed, t, n_clients, fraction), chosen)


def test_all_clients_by_default():
    assert participants(1, 5, 4).tolist() == [0, 1, 2, 3]


def test_every_client_has_the_same_chance():
    N, rounds, fraction = 10, 4000, 0.3
    counts = np.bincount(np.concatenate([participants(7, t, N, fraction) for t in range(rounds)]), minlength=N)
    # A client's count is binomial: 1200 with a standard deviation of 29. Five of these are 145.
    assert np.abs(counts - fraction * rounds).max() < 5 * np.sqrt(rounds * fraction * (1 - fraction))


def test_rounds_and_seeds_have_draws_of_their_own():
    drawn = {tuple(participants(seed, t, 50, 0.5).tolist()) for seed in (1, 2) for t in range(20)}
    assert len(drawn) == 40


def test_the_stream_is_the_run_s():
    rng = stream(3, "participants", 9)
    assert participants(3, 9, 20, 0.25).tolist() == sorted(rng.choice(20, 5, replace=False, shuffle=False).tolist())


@pytest.mark.parametrize(
    ("n_clients", "fraction", "says"),
    [
        (0, 0.5, "n_clients must be an integer >= 1, got 0"),
        (5, 0.0, "fraction must be a finite number > 0 and <= 1, got 0.0"),
        (5, 1.5, "fraction must be a finite number > 0 and <= 1, got 1.5"),
    ],
)
def test_wrong_shares_are_refused(n_clients, fraction, says):
    with pytest.raises(ValueError, match=says):
        participants(1, 0, n_clients, fraction)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=50))
def test_weights_are_in_proportion_to_sizes_with_mean_1(sizes):
    weights = size_weights(sizes)
    assert weights.mean() == pytest.approx(1)
    np.testing.assert_allclose(weights * sizes[0], weights[0] * np.array(sizes), rtol=1e-12)


def test_equal_sizes_have_weights_of_exactly_1():
    assert size_weights([37] * 7).tolist() == [1.0] * 7


def test_the_weighted_mean_is_fedavg_s():
    sizes, gradients = [5, 20, 75], np.random.default_rng(1).normal(size=(3, 8))
    weighted = (size_weights(sizes)[:, None] * gradients).astype(np.float32)
    expected = np.average(gradients, axis=0, weights=sizes)
    np.testing.assert_allclose(scheme_named("analog").combine(weighted), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ([], "number of sizes must be an integer >= 1, got 0"),
        ([3, 0], "sizes must be an integer >= 1, got 0"),
        ([3, 1.5], "sizes must be an integer >= 1, got 1.5"),
    ],
)
def test_wrong_sizes_are_refused(sizes, says):
    with pytest.raises(ValueError, match=says):
        size_weights(sizes)
