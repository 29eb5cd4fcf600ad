# SPDX-License-Identifier: GPL-3.0-or-later
"""The terms of Theorem 1, each written out for one set of constants, and how they grow."""

import dataclasses
import math

import pytest

from fl_app.theory.convergence import ProblemConstants, bound_terms, bound_terms_for_many_clients, rate_limits

GIVEN = ProblemConstants(
    d=1000,
    n_clients=10,
    local_steps=5,
    rounds=200,
    eta=0.01,
    eta_local=0.02,
    mean_age=11.0,
    smoothness=3.0,
    heterogeneity_smoothness=2.0,
    gradient_bound=4.0,
    sgd_std=0.5,
    heterogeneity_std=0.7,
    noise_std=0.1,
    mean_gain=1.0,
    gain_std=0.5,
    first_gap=2.3,
)


def test_the_terms_are_the_papers():
    terms = bound_terms(GIVEN)
    assert terms["first loss"] == pytest.approx(2.3 / (0.01 * 5 * 200))
    assert terms["channel noise"] == pytest.approx(0.01 * 1000 * 3 * 0.01 / (5 * 100))
    assert terms["stochastic gradients"] == pytest.approx(0.01 * 3 * 0.25 * 1.25 / 10)
    assert terms["heterogeneity"] == pytest.approx(16 * 0.0004 * 4 * 0.49)
    assert terms["local drift"] == pytest.approx(4 * 0.0004 * 0.25 * (4 + 0.9))
    assert terms["staleness"] == pytest.approx(0.01 * 3 * 11 / 5 * (1000 * 0.01 / 100 + 16 * 25 * 2.25))


@pytest.mark.parametrize(
    ("change", "powers"),
    [
        ({"rounds": 400}, {"first loss": -1}),
        ({"noise_std": 0.2}, {"channel noise": 2}),
        ({"sgd_std": 1.0}, {"stochastic gradients": 2, "local drift": 2}),
        ({"heterogeneity_std": 1.4}, {"heterogeneity": 2}),
        ({"mean_age": 22.0}, {"staleness": 1}),
    ],
)
def test_doubling_a_constant_moves_its_terms_alone(change, powers):
    before, after = bound_terms(GIVEN), bound_terms(dataclasses.replace(GIVEN, **change))
    for name, value in after.items():
        if name == "staleness" and "noise_std" in change:
            continue  # a part of it is noise
        assert value == pytest.approx(before[name] * 2 ** powers.get(name, 0))


def test_with_one_local_step_the_clients_do_not_drift():
    terms = bound_terms(dataclasses.replace(GIVEN, local_steps=1))
    assert terms["heterogeneity"] == terms["local drift"] == 0


def test_for_many_clients_the_bound_is_its_large_form():
    many = dataclasses.replace(GIVEN, n_clients=10**9)
    terms, large = bound_terms(many), bound_terms_for_many_clients(many)
    assert terms["first loss"] == large["first loss"]
    assert terms["staleness"] == pytest.approx(large["staleness"])
    assert terms["channel noise"] + terms["stochastic gradients"] < 1e-6 * sum(terms.values())
    # The paper bounds (H - 1) by (H - 1)^2 in the drift.
    assert terms["heterogeneity"] + terms["local drift"] <= large["local steps"]


def test_the_rates_are_the_papers():
    limits = rate_limits(GIVEN)
    assert limits["eta"] == pytest.approx(1 / (2 * 5 * 3 * 1.25))
    assert limits["eta_local"] == pytest.approx(min(1 / (2 * math.sqrt(30) * 15), 1 / math.sqrt(30 * 13)))


def test_constants_out_of_range_are_named():
    with pytest.raises(ValueError, match="eta_local"):
        dataclasses.replace(GIVEN, eta_local=0.0)
    with pytest.raises(ValueError, match="sgd_std"):
        dataclasses.replace(GIVEN, sgd_std=-1.0)
