# SPDX-License-Identifier: GPL-3.0-or-later
"""The age of update, and what the paper says of the policies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.core.ages import Ages
from fl_app.core.selection import make_policy, update_age

# ---------------------------------------------------------------------------------------------------------------
# The age, and what the paper says of the policies


def test_update_age_is_the_papers_formula():
    age = np.array([0, 3, 5, 0], np.int32)
    selection = np.array([1, 0, 1, 0])
    expected = ((age + 1) * (1 - selection)).tolist()
    for selected in (np.array([0, 2]), selection.astype(bool)):
        new = update_age(age, selected)
        assert new.tolist() == expected
        assert new.dtype == np.int32
    assert age.tolist() == [0, 3, 5, 0], "the old age is left alone"


def test_update_age_with_nothing_selected():
    assert update_age(np.array([1, 2]), np.array([], np.int64)).tolist() == [2, 3]
    assert update_age(np.array([1, 2]), np.zeros(2, bool)).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("age", "selected", "message"),
    [
        (np.zeros(3), np.array([0]), "integers"),
        (np.zeros((3, 1), int), np.array([0]), "vector"),
        (np.zeros(3, int), np.array([3]), r"0\.\.2"),
        (np.zeros(3, int), np.array([-1]), r"0\.\.2"),
        (np.zeros(3, int), np.array([0.0]), r"0\.\.2"),
        (np.zeros(3, int), np.array([True]), "shape"),
        (np.array([127], np.int8), np.array([0]), "wider"),
    ],
)
def test_update_age_refuses(age, selected, message):
    with pytest.raises(ValueError, match=message):
        update_age(age, selected)


def run(policy, gradients, rounds):
    """The loop of Algorithm 1 around a policy: yields (selected indices, age after them)."""
    age = update_age(np.zeros(policy.d, np.int32), np.arange(policy.d))
    for _ in range(rounds):
        selected = policy.next(gradients(), age)
        age = update_age(age, selected)
        yield selected, age


@pytest.mark.parametrize(("d", "k"), [(100, 10), (100, 7), (37, 36), (5, 5), (11, 1), (500, 333)])
def test_round_robin_refreshes_everything_in_turn(d, k):
    rng = np.random.default_rng(d * k)
    policy = make_policy("round-robin", d, k, rng=rng)
    period = math.ceil(d / k)
    last_round = np.zeros(d, int)  # round 0 sent everything
    for number, (selected, age) in enumerate(run(policy, lambda: rng.standard_normal(d, np.float32), 5 * period), 1):
        assert (number - last_round[selected]).max() <= period
        last_round[selected] = number
        assert age.max() <= period - 1
        assert (number - last_round).max() <= period


def test_remark_1_k_m_zero_is_round_robin_and_k_m_k_is_top_k():
    d, k, rng = 200, 30, np.random.default_rng(1)
    for k_m, twin in ((0, "round-robin"), (k, "top-k")):
        fair = make_policy("fair-k", d, k, k_m=k_m, rng=np.random.default_rng(9))
        other = make_policy(twin, d, k, rng=np.random.default_rng(9))
        age = np.zeros(d, np.int32)
        for _ in range(30):
            g = rng.integers(-3, 4, d).astype(np.float32)
            selected = fair.next(g, age)
            assert (selected == other.next(g, age)).all()
            age = update_age(age, selected)


def test_mean_age_in_the_setting_of_figure_3():
    """The paper's exchange process: in each round k_0 entries of the top set swap with k_0 of the others.

    Expected mean age, by counting: with s = d - k_M entries outside the top set, each leaves it per round with
    p2 = k_0/s. Into age 0 flow k_A entries (sent by age); into age 1 flow k_0 (just fallen out of the top set).
    So n(a) = k_A q^a + k_0 q^(a-1) with q = 1 - p2, up to the largest age at which the s entries are used up.
    Entries of the top set have age 0. This gives 11.4 (the paper's Lemma 1, with its own approximation: 11.7).
    """
    k, rho, rounds, warm_up = 80, 0.1, 900, 100
    d, k_m = int(k / rho), int(0.75 * k)
    k_0, k_a = k_m // 4, k - k_m
    outside = d - k_m
    q = 1 - k_0 / outside
    expected, left, a = 0.0, float(outside), 0
    while left > 0:
        here = min(left, k_a * q**a + (k_0 * q ** (a - 1) if a else 0))
        expected, left, a = expected + a * here / d, left - here, a + 1
    assert expected == pytest.approx(11.4, abs=0.15)

    rng = np.random.default_rng(33)
    policy = make_policy("fair-k", d, k, k_m=k_m, rng=np.random.default_rng(34))
    in_top = np.zeros(d, bool)
    in_top[rng.permutation(d)[:k_m]] = True

    def exchange():
        leave = rng.choice(np.flatnonzero(in_top), k_0, replace=False)
        enter = rng.choice(np.flatnonzero(~in_top), k_0, replace=False)
        in_top[leave], in_top[enter] = False, True
        return np.where(in_top, 1, 0.001).astype(np.float32)

    mean_age = [age.mean() for _, age in run(policy, exchange, rounds)][warm_up:]
    assert np.mean(mean_age) == pytest.approx(expected, abs=0.15)


def test_fair_k_is_fresher_than_top_rand_and_top_k():
    d, k, rng = 1000, 100, np.random.default_rng(5)
    scale = rng.lognormal(size=d)
    mean_age = {}
    for name in ("fair-k", "top-rand", "top-k"):
        policy = make_policy(name, d, k, rng=np.random.default_rng(6))
        ages = [age.mean() for _, age in run(policy, lambda: (scale * rng.standard_normal(d)).astype(np.float32), 200)]
        mean_age[name] = np.mean(ages[100:])
    assert mean_age["fair-k"] < 0.65 * mean_age["top-rand"] < 0.65 * mean_age["top-k"]


# ---------------------------------------------------------------------------------------------------------------
# Ages as rounds of the last update


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 250, 300]))
def test_ages_are_those_of_the_formula(d, seed, start):
    """From ages as a checkpoint has them, over rounds with few and many updates, and skipped ones."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, start + 1, d).astype(np.int32)
    ages = Ages(age)
    for _ in range(30):
        if rng.random() < 0.2:
            ages.skip()
            age = age + 1
        else:
            selected = np.flatnonzero(rng.random(d) < rng.random())
            ages.update(selected)
            age = update_age(age, selected)
        assert ages.array().tolist() == age.tolist()
        assert ages.array().dtype == np.int32
        assert ages.mean() == age.mean()
        assert ages.max() == age.max()
        assert ages.counts.tolist() == np.bincount(ages.last, minlength=ages.now + 1).tolist()


def test_a_byte_for_each_entry_lasts_for_any_number_of_rounds():
    """Round robin in steps of 10: no entry is older than 10 rounds."""
    ages, age = Ages.zeros(100), np.zeros(100, np.int32)
    for number in range(1000):
        selected = np.arange(10) + 10 * (number % 10)
        ages.update(selected)
        age = update_age(age, selected)
    assert ages.array().tolist() == age.tolist()
    assert ages.last.dtype == np.uint8


@pytest.mark.parametrize(("oldest", "wider"), [(250, np.uint16), (65_530, np.uint32)])
def test_an_entry_that_is_never_sent_takes_a_wider_type(oldest, wider):
    ages = Ages(np.array([0, oldest, 3]))
    for _ in range(10):
        ages.update(np.array([0]))
    assert ages.array().tolist() == [0, oldest + 10, 13]
    assert ages.last.dtype == wider


def test_ages_refuse_what_they_cannot_hold():
    with pytest.raises(ValueError, match=r"0\.\.2"):
        Ages.zeros(3).update(np.array([3]))
    with pytest.raises(ValueError, match=r"0\.\.2"):
        Ages.zeros(3).update(np.array([-1]))
    with pytest.raises(ValueError, match="smallest entry is -1"):
        Ages(np.array([0, -1]))
