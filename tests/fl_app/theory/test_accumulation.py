# SPDX-License-Identifier: GPL-3.0-or-later
"""How noise adds up in stale entries: an identity, a closed form and a simulation that was made elsewhere."""

import numpy as np
import pytest

from fl_app.core.noise_gain import KNOWN_POLICIES, Setting, noise_gain
from fl_app.theory.accumulation import blind_noise_gain, simulate, stale_error

# An independent simulation (d = 20,000, rho = 10 %, 600 rounds); policy, k_M/k, noise gain for s = 1 and s = 0.
REFERENCE = [
    ("round-robin", 0.75, 10, 10),
    ("fair-k", 0.25, 37, 4.7),
    ("fair-k", 0.5, 102, None),
    ("fair-k", 0.75, 239, 1.3),
    ("top-rand", 0.75, 251, 2.3),
    ("age-top-k", 0.75, 409, 0.5),
    ("top-k", 0.75, 495, 0.4),
]


@pytest.mark.parametrize(("policy", "ratio", "with_gradient", "without"), REFERENCE)
def test_noise_gains_are_those_of_another_simulation(policy, ratio, with_gradient, without):
    found = simulate(policy, Setting(1.0, k_m_ratio=ratio))
    assert found.noise_gain == pytest.approx(with_gradient, rel=0.05)
    if without is not None:
        found = simulate(policy, Setting(0.0, k_m_ratio=ratio))
        assert found.noise_gain == pytest.approx(without, rel=0.1, abs=0.05)


@pytest.mark.parametrize("policy", ["round-robin", "rand-k", "dense"])
@pytest.mark.parametrize("rounds", [3, 10, 57])
def test_where_selection_is_blind_the_gain_is_one_plus_twice_the_age(policy, rounds):
    found = simulate(policy, Setting(0.5, rho=0.2, rounds=rounds), d=40_000)
    assert found.blind_gain == 1 + 2 * found.mean_age
    assert found.noise_gain == pytest.approx(found.blind_gain, rel=0.05)


def test_round_robin_has_the_gain_of_its_period():
    assert noise_gain("round-robin", Setting(1.0, rho=0.05)).total == pytest.approx(20)
    assert blind_noise_gain(9.5) == pytest.approx(20)


@pytest.mark.parametrize("s", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize(("policy", "ratio"), [("fair-k", 0.25), ("fair-k", 0.75), ("top-rand", 0.5)])
def test_the_closed_form_is_near_the_simulation(policy, ratio, s):
    setting = Setting(s, k_m_ratio=ratio)
    assert noise_gain(policy, setting).total == pytest.approx(simulate(policy, setting).noise_gain, rel=0.12)


def test_without_a_gradient_nothing_adds_up_coherently_and_with_one_it_grows_with_the_horizon():
    assert noise_gain("fair-k", Setting(0.0)).coherent == pytest.approx(0, abs=1e-9)
    short, long = (noise_gain("fair-k", Setting(1.0, rounds=rounds)) for rounds in (300, 600))
    assert long.coherent == pytest.approx(2 * short.coherent)
    assert long.scattered == pytest.approx(short.scattered)


def test_stale_entries_of_a_gradient_that_walks():
    """A walk of a share w a round: after tau rounds the correlation is (1 - w^2)^(tau / 2)."""
    walk, found = 0.05, simulate("round-robin", Setting(1.0, rho=0.1, rounds=200), walk=0.05, d=40_000)
    ages = np.arange(10)
    expected = np.mean(2 - 2 * (1 - walk**2) ** (ages / 2))
    assert found.stale_error == pytest.approx(expected, rel=0.1)
    # For slow walks the error is that of independent steps.
    assert stale_error(found.mean_age, walk**2) == pytest.approx(expected, rel=0.1)


def test_policies_without_a_steady_state_have_no_closed_form():
    assert set(KNOWN_POLICIES) == {"fair-k", "round-robin", "top-rand"}
    for policy, ratio in (("top-k", 0.75), ("fair-k", 1.0)):
        with pytest.raises(ValueError, match=r"policy|k_m_ratio"):
            noise_gain(policy, Setting(1.0, k_m_ratio=ratio))
