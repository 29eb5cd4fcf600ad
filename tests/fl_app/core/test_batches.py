# SPDX-License-Identifier: GPL-3.0-or-later
"""The samples of each local step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.core.steps.batches import draw_batch, epoch_batches, step_batches

small = st.integers(1, 40)


@given(small, small, st.integers(1, 4), st.integers(0, 2**32))
def test_an_epoch_has_every_sample_once(samples, batch_size, epochs, seed):
    batches = list(epoch_batches(samples, batch_size, epochs, np.random.default_rng(seed)))
    per_epoch = -(-samples // batch_size)
    assert len(batches) == epochs * per_epoch
    for epoch in range(epochs):
        own = batches[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(np.concatenate(own).tolist()) == list(range(samples))
        assert all(batch.size == batch_size for batch in own[:-1])


def _pairs(batches):
    given = list(batches)
    return [np.concatenate(pair) for pair in zip(given[::2], given[1::2], strict=True)]


def test_each_epoch_has_an_order_of_its_own():
    one, two = _pairs(epoch_batches(1000, 500, 2, np.random.default_rng(1)))
    assert not np.array_equal(one, two)


@given(small, small, st.integers(1, 6), st.integers(0, 2**32))
def test_a_step_s_batch_has_different_samples(samples, batch_size, steps, seed):
    batches = list(step_batches(samples, batch_size, steps, np.random.default_rng(seed)))
    assert len(batches) == steps
    for batch in batches:
        assert len(set(batch.tolist())) == batch.size == min(batch_size, samples)
        assert batch.min() >= 0
        assert batch.max() < samples


def test_steps_draw_one_after_the_other_from_the_generator():
    rng = np.random.default_rng(5)
    expected = [draw_batch(30, 8, rng) for _ in range(4)]
    for one, other in zip(step_batches(30, 8, 4, np.random.default_rng(5)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_batch_of_all_samples_is_in_order_and_draws_nothing():
    for batches in (step_batches, epoch_batches):
        rng = np.random.default_rng(5)
        assert [batch.tolist() for batch in batches(4, 9, 2, rng)] == [[0, 1, 2, 3]] * 2
        assert rng.bit_generator.state == np.random.default_rng(5).bit_generator.state


@pytest.mark.parametrize(
    ("samples", "batch_size", "epochs", "says"),
    [
        (0, 5, 1, "samples must be an integer >= 1, got 0"),
        (5, 0, 1, "batch_size must be an integer >= 1, got 0"),
        (5, 5, 0, "epochs must be an integer >= 1, got 0"),
    ],
)
def test_wrong_numbers_are_refused(samples, batch_size, epochs, says):
    with pytest.raises(ValueError, match=says):
        list(epoch_batches(samples, batch_size, epochs, np.random.default_rng(0)))
