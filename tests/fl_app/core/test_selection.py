# SPDX-License-Identifier: GPL-3.0-or-later
"""Selection policies against a naive implementation, the paper's remarks, and statistics of their ties."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fl_app.core.selection import POLICY_NAMES, AgeTopK, FairK, canonical_name, make_policy, update_age

# ---------------------------------------------------------------------------------------------------------------
# A second implementation, by sorting and with Python's own lists: slow, and made without the first one's tricks.


def naive_sets(values, count):
    """(sure, tied, places): entries that must be picked, those that compete, and how many of these get a place."""
    if count == 0:
        return set(), set(), 0
    last = sorted(values.values(), reverse=True)[count - 1]
    sure = {i for i, v in values.items() if v > last}
    tied = {i for i, v in values.items() if v == last}
    return sure, tied, count - len(sure)


def is_top(picked, values, count):
    """Whether `picked` is one of the sets that a sort with some order of ties could have returned."""
    sure, tied, places = naive_sets(values, count)
    return len(picked) == count and sure <= picked and picked - sure <= tied and len(picked - sure) == places


def some_magnitude_half(picked, magnitude, k_m):
    """The k_m of `picked` that a naive magnitude sort would name, ties resolved in favour of what was picked."""
    order = sorted(magnitude, key=lambda i: (-magnitude[i], i not in picked))
    return set(order[:k_m])


@st.composite
def situations(draw):
    d = draw(st.integers(1, 500))
    k = draw(st.integers(1, d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    g = {
        "normal": lambda: rng.standard_normal(d),
        "tied": lambda: rng.integers(-2, 3, d),
        "zeros": lambda: np.zeros(d),
        "mostly zero": lambda: rng.standard_normal(d) * (rng.random(d) < 0.1),
        "signs": lambda: np.where(rng.random(d) < 0.5, -1.0, 1.0),
    }[draw(st.sampled_from(["normal", "tied", "zeros", "mostly zero", "signs"]))]().astype(np.float32)
    oldest = draw(st.sampled_from([0, 1, 5, 1000, 2**31 - 2]))
    age = rng.integers(0, oldest + 1, d).astype(draw(st.sampled_from([np.int32, np.int64])))
    return d, k, g, age, rng


def check_set(indices, policy):
    assert indices.dtype == np.int64
    assert indices.shape == (policy.k,)
    assert (np.diff(indices) > 0).all(), "sorted, none twice"
    assert indices[0] >= 0
    assert indices[-1] < policy.d


def split(g, age):
    return dict(enumerate(np.abs(g).tolist())), dict(enumerate(age.tolist()))


@settings(max_examples=150, deadline=None)
@given(situations(), st.data())
def test_fair_k_is_naive_magnitude_then_age(situation, data):
    d, k, g, age, rng = situation
    k_m = data.draw(st.integers(0, k))
    policy = make_policy("fair-k", d, k, k_m=k_m, rng=rng)
    indices = policy.next(g, age)
    check_set(indices, policy)
    picked, (magnitude, ages) = set(indices.tolist()), split(g, age)

    # Any entry that a naive sort is sure of must be there, and it must be possible to split the set in two halves
    # each of which is a legal outcome. Where magnitudes tie, the halves are told apart by age: the *youngest* of
    # the tied picked ones must have come by magnitude if anything is legal at all.
    sure, tied, places = naive_sets(magnitude, k_m)
    assert sure <= picked
    contested = sorted(tied & picked, key=lambda i: ages[i])
    by_magnitude = sure | set(contested[:places])
    assert is_top(by_magnitude, magnitude, k_m)
    rest = {i: a for i, a in ages.items() if i not in by_magnitude}
    assert is_top(picked - by_magnitude, rest, k - k_m)


@settings(max_examples=100, deadline=None)
@given(situations())
def test_top_k_leaves_nothing_larger_behind(situation):
    d, k, g, age, rng = situation
    policy = make_policy("top-k", d, k, rng=rng)
    indices = policy.next(g, age)
    check_set(indices, policy)
    assert is_top(set(indices.tolist()), split(g, age)[0], k)


@settings(max_examples=100, deadline=None)
@given(situations())
def test_round_robin_leaves_nothing_older_behind(situation):
    d, k, g, age, rng = situation
    policy = make_policy("round-robin", d, k, rng=rng)
    indices = policy.next(g, age)
    check_set(indices, policy)
    assert is_top(set(indices.tolist()), split(g, age)[1], k)


@settings(max_examples=100, deadline=None)
@given(situations(), st.data())
def test_top_rand_has_the_largest_k_m(situation, data):
    d, k, g, age, rng = situation
    k_m = data.draw(st.integers(0, k))
    policy = make_policy("top-rand", d, k, k_m=k_m, rng=rng)
    indices = policy.next(g, age)
    check_set(indices, policy)
    picked, (magnitude, _) = set(indices.tolist()), split(g, age)
    half = some_magnitude_half(picked, magnitude, k_m)
    assert half <= picked
    assert is_top(half, magnitude, k_m)


@settings(max_examples=100, deadline=None)
@given(situations(), st.data())
def test_age_top_k_is_the_oldest_of_the_largest(situation, data):
    d, k, g, age, rng = situation
    r = data.draw(st.integers(k, d))
    policy = make_policy("age-top-k", d, k, r=r, rng=rng)
    indices = policy.next(g, age)
    check_set(indices, policy)
    picked, (magnitude, ages) = set(indices.tolist()), split(g, age)
    sure, tied, places = naive_sets(magnitude, r)
    assert picked <= sure | tied
    # Of the tied ones, assume as candidates those picked and then the youngest: the choice that is easiest to satisfy.
    among = sorted(tied, key=lambda i: (i not in picked, ages[i]))[:places]
    assert len(picked & tied) <= places
    candidates = {i: ages[i] for i in sure | set(among)}
    assert is_top(picked, candidates, k)


@settings(max_examples=50, deadline=None)
@given(situations(), st.sampled_from(POLICY_NAMES))
def test_every_policy_gives_exactly_k(situation, name):
    d, k, g, age, rng = situation
    policy = make_policy(name, d, k, rng=rng)
    before = g.copy(), age.copy()
    check_set(policy.next(g, age), policy)
    np.testing.assert_array_equal((g, age), before, "inputs are left alone")


# ---------------------------------------------------------------------------------------------------------------
# Edges


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("d", [1, 2, 7])
def test_k_equal_to_d_sends_everything(name, d):
    policy = make_policy(name, d, d, rng=np.random.default_rng(0))
    assert policy.next(np.zeros(d, np.float32), np.zeros(d, np.int32)).tolist() == list(range(d))


def test_dense_sends_everything_for_any_k():
    policy = make_policy("dense", 10, 3)
    assert policy.k == 10
    assert policy.next(np.zeros(10, np.float32), np.zeros(10, np.int64)).tolist() == list(range(10))


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_nan_is_refused(name):
    g = np.ones(5, np.float32)
    g[3] = np.nan
    with pytest.raises(ValueError, match="1 NaN"):
        make_policy(name, 5, 2).next(g, np.zeros(5, np.int32))


def test_infinity_is_the_largest():
    g = np.array([1, -np.inf, 2, 3], np.float32)
    assert make_policy("top-k", 4, 2).next(g, np.zeros(4, np.int32)).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 0, "k": 1}, "d must be an integer >= 1, got 0"),
        ({"d": 5, "k": 0}, "k must be an integer from 1 to 5, got 0"),
        ({"d": 5, "k": 6}, "k must be an integer from 1 to 5, got 6"),
        ({"d": 5, "k": 2.5}, "k must be an integer from 1 to 5, got 2.5"),
        ({"d": 5, "k": True}, "k must be an integer from 1 to 5, got True"),
        ({"d": 5, "k": 3, "k_m": 4}, "k_m must be an integer from 0 to 3, got 4"),
        ({"d": 5, "k": 3, "k_m": -1}, "k_m must be an integer from 0 to 3, got -1"),
        ({"name": "age-top-k", "d": 5, "k": 3, "r": 2}, "r must be an integer from 3 to 5, got 2"),
        ({"name": "age-top-k", "d": 5, "k": 3, "r": 6}, "r must be an integer from 3 to 5, got 6"),
        ({"d": 5, "k": 3, "rng": 7}, "rng must be a numpy.random.Generator"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_policy(**{"name": "fair-k", **arguments})


@pytest.mark.parametrize(
    ("g", "age", "message"),
    [
        (np.ones(4, np.float32), np.zeros(5, np.int32), "g must hold 5"),
        (np.ones((5, 1), np.float32), np.zeros(5, np.int32), "g must hold 5"),
        (np.ones(5, np.complex64), np.zeros(5, np.int32), "g must hold 5"),
        (np.ones(5, np.float32), np.zeros(4, np.int32), "age must hold 5"),
        (np.ones(5, np.float32), np.zeros(5, np.float32), "age must hold 5"),
        (np.ones(5, np.float32), np.full(5, -1), "not be negative"),
    ],
)
def test_bad_vectors_are_named(g, age, message):
    with pytest.raises(ValueError, match=message):
        make_policy("fair-k", 5, 2).next(g, age)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("fairk", "fair-k"),
        ("FAIR-k", "fair-k"),
        ("Fair_K", "fair-k"),
        ("topk", "top-k"),
        ("AgeTop-k", "age-top-k"),
        ("agetopk", "age-top-k"),
        ("TopRand", "top-rand"),
        ("round robin", "round-robin"),
        ("RoundRobin", "round-robin"),
        ("randk", "rand-k"),
        ("Dense", "dense"),
    ],
)
def test_obvious_spellings_are_understood(spelling, name):
    assert canonical_name(spelling) == name
    assert make_policy(spelling, 4, 2).name == name


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("fare-k", "fair-k"), ("topp", "top-k"), ("round-robbin", "round-robin")]
)
def test_unknown_policy_names_the_nearest(wrong, nearest):
    with pytest.raises(ValueError, match=f"did you mean '{nearest}'"):
        make_policy(wrong, 4, 2)


def test_defaults_are_the_papers():
    fair = make_policy("fair-k", 1000, 100)
    assert isinstance(fair, FairK)
    assert fair.k_m == 75
    aged = make_policy("age-top-k", 1000, 100)
    assert isinstance(aged, AgeTopK)
    assert aged.r == 150
    capped = make_policy("age-top-k", 120, 100)
    assert isinstance(capped, AgeTopK)
    assert capped.r == 120


# ---------------------------------------------------------------------------------------------------------------
# Ties are spread evenly

DRAWS = 4000


def evenness(policy, g, age, contested):
    """p-value of the hypothesis that every contested entry is picked equally often.

    Picks are without replacement: a count has the variance D p (1 - p), p = places/n, so that Pearson's statistic
    has the mean n (1 - p) instead of n - 1. It is divided by the ratio of the two.
    """
    counts = np.zeros(policy.d)
    for _ in range(DRAWS):
        counts[policy.next(g, age)] += 1
    counts = counts[contested]
    places = counts.sum() / DRAWS
    statistic = ((counts - counts.mean()) ** 2 / counts.mean()).sum() / ((len(counts) - places) / (len(counts) - 1))
    return stats.chi2.sf(statistic, len(counts) - 1)


@pytest.mark.parametrize(
    ("name", "g", "age", "contested"),
    [
        # all equal: every entry competes for every place
        ("top-k", np.zeros(30), np.zeros(30), range(30)),
        ("round-robin", np.zeros(30), np.full(30, 4), range(30)),
        ("rand-k", np.arange(30), np.arange(30), range(30)),
        ("age-top-k", np.ones(30), np.full(30, 2), range(30)),
        ("fair-k", np.zeros(30), np.zeros(30), range(30)),
        # 6 sure ones, and 2 places for 24 equals
        ("top-k", np.r_[np.full(6, 5.0), np.full(24, -1.0)], np.zeros(30), range(6, 30)),
        # by magnitude entries 0..5, then 2 places among the 24 of equal age
        ("fair-k", np.r_[np.arange(9, 3, -1), np.zeros(24)], np.full(30, 7), range(6, 30)),
        ("top-rand", np.r_[np.arange(9, 3, -1), np.zeros(24)], np.arange(30), range(6, 30)),
        # of the 12 largest, 8 oldest: all of one age
        ("age-top-k", np.r_[np.full(12, 2.0), np.zeros(18)], np.full(30, 3), range(12)),
    ],
)
def test_ties_are_spread_evenly(name, g, age, contested):
    policy = make_policy(name, 30, 8, rng=np.random.default_rng(20240501))
    p = evenness(policy, g.astype(np.float32), age.astype(np.int32), list(contested))
    assert p > 1e-3


def test_ties_do_not_come_in_pairs():
    """Not only each entry: each *pair* of tied entries is equally likely."""
    d, k = 12, 4
    policy = make_policy("top-k", d, k, rng=np.random.default_rng(3))
    g, age = np.ones(d, np.float32), np.zeros(d, np.int32)
    together = np.zeros((d, d))
    for _ in range(DRAWS):
        indices = policy.next(g, age)
        together[np.ix_(indices, indices)] += 1
    pairs = together[np.triu_indices(d, 1)]
    probability = k * (k - 1) / (d * (d - 1))
    sigma = math.sqrt(DRAWS * probability * (1 - probability))
    assert np.abs(pairs - DRAWS * probability).max() < 4.5 * sigma


# ---------------------------------------------------------------------------------------------------------------
# Resuming, and speed


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox, np.random.MT19937, np.random.SFC64])
def test_a_restored_policy_goes_on_bit_for_bit(name, bits):
    d, k = 60, 20
    g, age = np.zeros(d, np.float32), np.zeros(d, np.int32)
    policy = make_policy(name, d, k, rng=np.random.Generator(bits(5)))
    policy.next(g, age)
    saved = json.loads(json.dumps(policy.state()))
    expected = [policy.next(g, age).tolist() for _ in range(5)]

    other = make_policy(name, d, k, rng=np.random.Generator(bits(6)))
    other.load_state(saved)
    assert [other.next(g, age).tolist() for _ in range(5)] == expected


def test_state_of_another_policy_is_refused():
    state = make_policy("fair-k", 10, 4).state()
    with pytest.raises(ValueError, match="name = 'fair-k'"):
        make_policy("top-k", 10, 4).load_state(state)
    with pytest.raises(ValueError, match="k = 4"):
        make_policy("fair-k", 10, 5).load_state(state)
    with pytest.raises(ValueError, match="PCG64"):
        make_policy("fair-k", 10, 4, rng=np.random.Generator(np.random.Philox(1))).load_state(state)


def test_same_seed_same_picks():
    def picks():
        return make_policy("fair-k", 50, 9, rng=np.random.default_rng(4)).next(np.ones(50, "f4"), np.zeros(50, int))

    assert (picks() == picks()).all()


def test_selection_at_the_size_of_resnet_18_takes_less_than_a_sort():
    """d of ResNet-18. Compared with numpy's argsort in the same run, in the thread's own time: neither a slow
    machine matters, nor a busy one."""
    d, k = 11_173_962, 1_117_396
    rng = np.random.default_rng(0)
    g = rng.standard_normal(d, np.float32)
    policy = make_policy("fair-k", d, k, rng=rng)
    age = np.zeros(d, np.int32)
    seconds = []
    for _ in range(4):
        start = time.thread_time()
        selected = policy.next(g, age)
        seconds.append(time.thread_time() - start)
        assert selected.size == k
        age = update_age(age, selected)
    start = time.thread_time()
    np.argsort(g)
    sort_seconds = time.thread_time() - start
    assert min(seconds) < sort_seconds
