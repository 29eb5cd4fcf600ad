# SPDX-License-Identifier: GPL-3.0-or-later
"""The formulas' air against the formulas: equation (7) and the error rate of FSK-MV."""

import numpy as np
import pytest
from scipy import stats

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate
from oac_blocks.dsp.bounds import mv_error_probability
from tests.support.statistics import assert_mean


def ballots(k_plus, k_minus, n_clients, k):
    votes = np.zeros((n_clients, k), np.int8)
    votes[:k_plus], votes[k_plus : k_plus + k_minus] = 1, -1
    return votes


@pytest.mark.parametrize(
    ("n_clients", "k_plus", "k_minus", "snr_db", "repeats"),
    [
        (1, 1, 0, 0.0, 1),
        (2, 2, 0, 10.0, 1),
        (2, 0, 1, 20.0, 1),
        (3, 1, 2, 20.0, 1),
        (5, 3, 1, 0.0, 2),
        (10, 2, 7, 5.0, 4),
        (10, 6, 4, -10.0, 3),
        (50, 30, 20, 20.0, 1),
    ],
)
def test_vote_errors_are_those_of_the_closed_form(n_clients, k_plus, k_minus, snr_db, repeats):
    k = 200_000
    votes = ballots(k_plus, k_minus, n_clients, k)
    air = make_air(AirSettings(name="fading", snr_db=snr_db, repeats=repeats), n_clients, seed=11)
    errors, compared = vote_error_rate(votes, air.uplink(votes, np.arange(n_clients), 3).received)
    p = float(mv_error_probability(k_plus, k_minus, 10 ** (snr_db / 10), repeats))
    assert compared == k
    assert abs(errors / k - p) < 3 * np.sqrt(p * (1 - p) / k)


def test_soft_votes_are_differences_of_exponentials_in_units_of_a_subcarrier():
    votes = ballots(3, 1, 4, 100_000)
    soft = make_air(AirSettings(name="fading", snr_db=10.0), 4, 2).uplink(votes, np.arange(4), 0).received
    plus, minus = 3 + 0.1, 1 + 0.1
    # The difference of two exponentials: an asymmetric Laplace distribution.
    below = minus / (plus + minus)

    def cdf(x):
        negative = below * np.exp(np.minimum(x, 0) / minus)
        return np.where(x < 0, negative, 1 - (1 - below) * np.exp(-np.maximum(x, 0) / plus))

    assert stats.kstest(soft, cdf).pvalue > 1e-3


@pytest.mark.parametrize("fading", ["none", "rician"])
def test_energies_without_the_shortcut_have_the_right_mean_and_spread(fading):
    # |sum of K unit phasors + noise|^2 has mean K + s2, however the phasors fade (power 1, random phase).
    votes = ballots(4, 1, 5, 100_000)
    air = make_air(AirSettings(name="fading", fading=fading, snr_db=10.0, repeats=2), 5, 2)
    soft = air.uplink(votes, np.arange(5), 0).received.astype(np.float64)
    # The most they may scatter is what Rayleigh fading would make of it: exponential energies.
    assert_mean(soft, 4 - 1, np.sqrt((4.1**2 + 1.1**2) / 2))
    # Fixed amplitudes: E|s|^4 = 2K^2 - K, so an energy's variance is K(K-1) + 2 K s2 + s2^2; two copies halve it.
    if fading == "none":
        variance = sum(K * (K - 1) + 2 * K * 0.1 + 0.01 for K in (4, 1)) / 2
        assert soft.var() == pytest.approx(variance, rel=0.03)


def test_the_way_without_the_shortcut_gives_the_same_error_rate():
    # Rician with no line of sight to speak of is Rayleigh.
    votes = ballots(3, 1, 4, 200_000)
    air = make_air(AirSettings(name="fading", fading="rician", rician_k_db=-60.0, snr_db=5.0), 4, 2)
    errors, k = vote_error_rate(votes, air.uplink(votes, np.arange(4), 0).received)
    p = float(mv_error_probability(3, 1, 10**0.5))
    assert abs(errors / k - p) < 3 * np.sqrt(p * (1 - p) / k)


def test_mixed_votes_with_abstentions_match_the_expected_rate():
    votes = np.random.default_rng(0).integers(-1, 2, (7, 200_000), np.int8)
    air = make_air(AirSettings(name="fading", snr_db=3.0, repeats=2), 7, 5)
    errors, compared = vote_error_rate(votes, air.uplink(votes, np.arange(7), 1).received)
    p = expected_vote_error_rate(votes, 10**0.3, 2)
    assert abs(errors / compared - p) < 3 * np.sqrt(p * (1 - p) / compared)


def test_analog_is_equation_7():
    """Mean g, and over rounds the variance sum g_n^2 (4/pi - 1) / N^2 + s2 / N^2, noise s2 = 1 as in the paper."""
    g = np.array([[0.5], [-1.0], [2.0], [1.5]], np.float32) * np.ones((1, 3), np.float32)
    air = make_air(AirSettings(name="fading", mode="analog", noise_std=1.0), 4, seed=1)
    rounds = np.array([air.uplink(g, np.arange(4), t).received for t in range(6000)], np.float64)
    fade = np.sum(g[:, 0].astype(float) ** 2) * (4 / np.pi - 1) / 16
    variance, n = fade + 1 / 16, len(rounds)
    assert np.all(np.abs(rounds.mean(axis=0) - g.mean()) < 3 * np.sqrt(variance / n))
    assert rounds.var(axis=0) == pytest.approx(np.full(3, variance), rel=0.08)
    # h is one number for a client and round: what two entries share is the fading, what they do not is the noise.
    assert np.cov(rounds[:, 0], rounds[:, 1])[0, 1] == pytest.approx(fade, rel=0.1)


def test_analog_gains_differ_by_client_and_round_and_not_by_entry():
    air = make_air(AirSettings(name="fading", mode="analog", snr_db=None), 2, seed=1)
    g = np.eye(2, dtype=np.float32).repeat(3, axis=1)
    first, second = (air.uplink(g, np.arange(2), t).received.reshape(2, 3) for t in (0, 1))
    assert np.all(first == first[:, :1])
    assert len({first[0, 0], first[1, 0], second[0, 0], second[1, 0]}) == 4


def test_noise_from_the_snr_follows_the_entries_rms():
    g = np.random.default_rng(0).normal(0, 2e-3, (5, 100_000)).astype(np.float32)
    air = make_air(AirSettings(name="fading", mode="analog", fading="none", snr_db=10.0), 5, seed=1)
    error = air.uplink(g, np.arange(5), 0).received - g.mean(axis=0)
    assert error.std() == pytest.approx(2e-3 / np.sqrt(10) / 5, rel=0.01)


def test_heavy_tailed_noise_has_the_stable_distribution_of_that_scale():
    g = np.full((1, 20_000), 1e-3, np.float32)
    settings = AirSettings(name="fading", mode="analog", fading="none", noise_std=1.0, noise_alpha=1.5)
    noise = make_air(settings, 1, seed=1).uplink(g, np.array([0]), 0).received - g[0]
    # exp(-(u^2/2)^(alpha/2)): scipy's scale is 1/sqrt(2).
    for share in (0.75, 0.95):
        expected = stats.levy_stable.ppf(share, 1.5, 0, scale=1 / np.sqrt(2))
        assert np.mean(noise < expected) == pytest.approx(share, abs=0.012)


def test_clipping_helps_in_heavy_tailed_noise():
    g = np.random.default_rng(0).normal(0, 1, (4, 20_000)).astype(np.float32)

    def error(**settings):
        air = make_air(AirSettings(name="fading", mode="analog", noise_std=1.0, noise_alpha=1.2, **settings), 4, 0)
        return np.mean((air.uplink(g, np.arange(4), 0).received - g.mean(axis=0)) ** 2)

    assert error(clip_level=5.0) < 0.1 * error()


def test_nothing_is_infinite_in_the_heaviest_tails():
    votes = np.ones((2, 50_000), np.int8)
    for mode, payload in (("onebit", votes), ("analog", votes.astype(np.float32))):
        air = make_air(AirSettings(name="fading", mode=mode, noise_alpha=0.5, snr_db=0.0), 2, 0)
        assert np.isfinite(air.uplink(payload, np.arange(2), 0).received).all()
