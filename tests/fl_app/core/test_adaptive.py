# SPDX-License-Identifier: GPL-3.0-or-later
"""adaptive-k: what it measures, against gradients and noise that the test draws; how it sets k_M; its state."""

import json

import numpy as np
import pytest

from fl_app.core.adaptive import RATIOS, AdaptiveK, mean_age_of_turns
from fl_app.core.selection import make_policy, update_age

D, K = 4000, 400


def play(policy, gradient, noise, rounds, seed=1):
    """Play rounds with a constant gradient and new noise on every value that is sent; return the mean ages."""
    rng = np.random.default_rng(seed)
    memory, age, selected, ages = np.zeros(D, np.float32), np.zeros(D, np.int32), np.arange(D), []
    for _ in range(rounds):
        memory[selected] = gradient[selected] + noise * rng.standard_normal(selected.size)
        age = update_age(age, selected)
        ages.append(age.mean())
        selected = policy.next(memory, age)
    return ages


def adaptive(ratio=0.75):
    return make_policy("adaptive-k", D, K, k_m=round(ratio * K), rng=np.random.default_rng(2))


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.75])
def test_mean_age_is_that_of_a_magnitude_set_that_stays(ratio):
    policy = make_policy("fair-k", D, K, k_m=round(ratio * K), rng=np.random.default_rng(2))
    gradient = np.random.default_rng(3).standard_normal(D)
    ages = play(policy, gradient, 0.0, 200)
    assert np.mean(ages[100:]) == pytest.approx(mean_age_of_turns(ratio, K / D), rel=0.05)


def test_captured_power_and_ratio_to_noise_are_those_of_the_gradient():
    rng = np.random.default_rng(4)
    gradient = 2.0 * rng.standard_t(3, D)
    policy = adaptive(0.5)
    play(policy, gradient, 1.0, 60)
    largest = np.sort(gradient**2)[::-1].cumsum() / np.sum(gradient**2)
    for ratio, captured in zip(RATIOS[1:], policy.repeats.captured[1:], strict=True):
        assert captured == pytest.approx(largest[round(ratio * K) - 1], abs=0.1)
    own_s = np.sqrt(np.mean(gradient**2) / 3)  # an entry's power is 3 s^2
    assert own_s / 1.5 < policy.repeats.s < own_s * 1.5


def test_without_a_gradient_nothing_is_captured():
    policy = adaptive()
    play(policy, np.zeros(D), 1.0, 40)
    assert not policy.repeats.sees_a_gradient
    assert policy.repeats.s == 0
    np.testing.assert_array_equal(policy.repeats.captured, 0)
    # Noise adds up less under selection by magnitude, and ages grow: a small magnitude set is the best of both.
    assert 0.1 <= policy.k_m / K <= 0.3


def test_k_m_follows_the_gradient():
    """Ten percent of the slots suffice for few large entries; a round robin is best where all are alike."""
    few = np.full(D, 1e-3)
    few[:: D // 40] = 1.0  # 40 entries have nearly all of the power
    concentrated, even = adaptive(), adaptive()
    play(concentrated, few, 1e-4, 40)
    play(even, np.ones(D), 0.3, 40)
    assert concentrated.k_m == 40
    assert even.k_m == 0


def test_it_starts_with_the_ratio_that_is_given_and_leaves_room_for_a_sample():
    assert adaptive(0.5).k_m == K // 2
    assert adaptive(1.0).k_m == round(0.9 * K)
    assert isinstance(make_policy("Adaptive-K", 3, 1), AdaptiveK)
    tiny = make_policy("adaptive-k", 3, 1, k_m=1)
    age = np.zeros(3, np.int32)
    for _ in range(4):
        selected = tiny.next(np.array([1.0, 2.0, 3.0]), age)
        assert selected.size == 1
        age = update_age(age, selected)


def test_state_goes_through_json_and_the_choices_stay_the_same():
    rng = np.random.default_rng(5)
    memory, age, selected = np.zeros(D, np.float32), np.zeros(D, np.int32), np.arange(D)
    one = adaptive()
    for t in range(12):
        memory[selected] = rng.standard_normal(selected.size)
        age = update_age(age, selected)
        if t == 6:
            other = adaptive()
            other.load_state(json.loads(json.dumps(one.state())))
        selected = one.next(memory, age)
        if t >= 6:
            np.testing.assert_array_equal(other.next(memory, age), selected)
            assert other.k_m == one.k_m
