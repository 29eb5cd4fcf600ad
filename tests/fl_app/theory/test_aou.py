# SPDX-License-Identifier: GPL-3.0-or-later
"""Ages under FAIR-k: Lemma 1 against its own matrices, the limit against the simulation, the policy against both."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fl_app.core.selection import make_policy, update_age
from fl_app.theory.aou import fits, lemma1, limit, simulate, total_variation
from fl_app.theory.exchange import Exchange

PAPER = Exchange(d=800, k=80, k_m=60, k0=15)  # Fig. 3


def literal_lemma(exchange):
    """Lemma 1 word by word: the whole matrix, its stationary vector, and powers of the matrix without two columns."""
    d, k, k_a, p1, p2 = exchange.d, exchange.k, exchange.k_a, exchange.p1, exchange.p2
    first, magnitude = 0, k_a  # positions 1 and k_A + 1
    matrix = np.zeros((d, d))
    matrix[:k_a, magnitude], matrix[:k_a, k] = p2, 1 - p2
    matrix[k_a:k, magnitude], matrix[k_a:k, k] = 1 - p1, p1
    for i in range(k + 1, d + 1):
        matrix[i - 1, magnitude] += p2
        steps = np.arange(min(math.ceil(exchange.k0), d - i) + 1)
        chances = binom.pmf(steps, d - i, p2)
        for step, chance in zip(steps, chances / chances.sum(), strict=True):
            to = i + k_a + step
            matrix[i - 1, first if to > d else to - 1] += (1 - p2) * chance
    assert np.allclose(matrix.sum(axis=1), 1)
    stationary = np.linalg.lstsq(np.vstack((matrix.T - np.eye(d), np.ones(d))), np.append(np.zeros(d), 1), rcond=None)[
        0
    ]
    without = matrix.copy()
    without[:, [first, magnitude]] = 0
    pmf, row = [], stationary
    while row.sum() > 1e-12:
        ends = row @ matrix
        pmf.append(ends[first] + ends[magnitude])
        row = row @ without
    return np.array(pmf)


@pytest.mark.parametrize("exchange", [Exchange(80, 10, 6, 2), Exchange(200, 20, 15, 4), Exchange(120, 60, 30, 7)])
def test_lemma_1_is_what_its_matrices_say(exchange):
    pmf, literal = lemma1(exchange).pmf, literal_lemma(exchange)
    size = max(len(pmf), len(literal))
    np.testing.assert_allclose(np.pad(pmf, (0, size - len(pmf))), np.pad(literal, (0, size - len(literal))), atol=1e-9)


def test_at_the_papers_parameters_lemma_and_limit_match_the_simulation():
    played = simulate(PAPER, 5000, seed=3)
    lemma, closed = lemma1(PAPER), limit(PAPER)
    assert lemma.mean == pytest.approx(11.7, abs=0.05)
    assert played.mean == pytest.approx(11.4, abs=0.05)
    assert total_variation(lemma, played) < 0.03
    assert total_variation(closed, played) < total_variation(lemma, played)
    assert closed.mean == pytest.approx(played.mean, abs=0.03)


@st.composite
def exchanges(draw):
    d = draw(st.integers(20, 400))
    k = draw(st.integers(2, d // 2))
    k_m = draw(st.integers(0, k - 1))
    return Exchange(d, k, k_m, draw(st.integers(0, min(k_m, d - k_m))))


@given(exchanges())
@settings(max_examples=100, deadline=None)
def test_distributions_sum_up_to_one_and_a_round_refreshes_k_entries(exchange):
    closed, lemma = limit(exchange), lemma1(exchange)
    for found in (closed, lemma):
        assert found.pmf.sum() == pytest.approx(1, abs=1e-9)
        assert found.pmf.min() >= -1e-12
        assert found.mean == pytest.approx(found.pmf @ np.arange(len(found.pmf)), rel=1e-6, abs=1e-9)
    assert closed.pmf[0] == pytest.approx(exchange.k / exchange.d)
    assert closed.max <= (exchange.d - exchange.k_m) / exchange.k_a  # the largest staleness of the paper


@given(st.integers(1, 50), st.floats(0.05, 0.5), st.floats(0, 0.9), st.floats(0.01, 0.9))
@settings(max_examples=25, deadline=None)
def test_the_limit_is_that_of_large_models(seed, rho, k_m_ratio, exchanged):
    d = 20_000
    k = int(rho * d)
    k_m = int(k_m_ratio * k)
    exchange = Exchange(d, k, k_m, int(exchanged * k_m))
    played = simulate(exchange, 60, seed)
    assert total_variation(limit(exchange), played) < 0.01


def test_without_exchange_the_ages_are_those_of_round_robin():
    closed = limit(Exchange(1000, 100, 0, 0))
    np.testing.assert_allclose(closed.pmf, np.full(10, 0.1))
    assert closed.mean == pytest.approx(4.5)
    assert closed.max == 9


def test_by_magnitude_alone_the_ages_are_geometric_without_end():
    exchange = Exchange(1000, 100, 100, 30)
    p2 = 30 / 900
    closed = limit(exchange)
    np.testing.assert_allclose(closed.pmf[1:50], 0.03 * (1 - p2) ** np.arange(49), rtol=1e-9)
    assert closed.mean == pytest.approx(0.03 / p2**2)
    assert closed.max == math.inf
    assert closed.to_dict()["max"] is None
    assert total_variation(lemma1(exchange), closed) == 0
    assert simulate(exchange, 3000).mean == pytest.approx(closed.mean, rel=0.05)


def test_models_of_ten_billion_entries_need_no_matrix():
    huge = Exchange(10**10, 10**9, 75 * 10**7, 1e7)
    assert not fits(huge)
    assert limit(huge).pmf.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="limit"):
        lemma1(huge)
    with pytest.raises(ValueError, match="at most"):
        simulate(huge)


def test_fair_k_itself_has_the_ages_of_round_robin_and_of_the_limit():
    """The policy of the learning app, fed with magnitudes that exchange k_0 entries a round."""
    d, k, k_m, k0 = 4000, 400, 300, 75
    rng = np.random.default_rng(2)
    policy = make_policy("fair-k", d, k, k_m=k_m, rng=rng)
    order, age, selected = rng.permutation(d), np.zeros(d, np.int32), np.arange(d)
    counts = np.zeros(200)
    for t in range(400):
        age = update_age(age, selected)
        if t >= 150:
            counts += np.bincount(age, minlength=200)
        inside, outside = rng.choice(k_m, k0, replace=False), rng.choice(d - k_m, k0, replace=False) + k_m
        order[inside], order[outside] = order[outside], order[inside]
        magnitude = np.full(d, 0.5)
        magnitude[order[:k_m]] = 1.0
        selected = policy.next(magnitude, age)
    closed = limit(Exchange(d, k, k_m, k0))
    pmf = counts / counts.sum()
    assert 0.5 * np.abs(pmf[: len(closed.pmf)] - closed.pmf).sum() < 0.01


@pytest.mark.parametrize(
    ("values", "name"),
    [((800, 401, 60, 15), "k"), ((800, 80, 81, 15), "k_m"), ((800, 80, 60, 61), "k0"), ((800, 80, 80, 0), "k0")],
)
def test_parameters_that_do_not_fit_are_named(values, name):
    with pytest.raises(ValueError, match=name):
        Exchange(*values)
