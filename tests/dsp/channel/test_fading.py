# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
import scipy.stats

from oac_blocks.dsp.channel import fading

N = 50_000


def test_rayleigh_gains_are_exponential_in_power():
    power = np.abs(fading.gains((N,), "rayleigh", np.random.default_rng(1))) ** 2
    assert scipy.stats.kstest(power, "expon").pvalue > 1e-3


@pytest.mark.parametrize("k_db", [-3.0, 5.0, 20.0])
def test_rician_gains_are_rician(k_db):
    magnitude = np.abs(fading.gains((N,), "rician", np.random.default_rng(2), k_db))
    k = 10 ** (k_db / 10)
    sigma = np.sqrt(1 / (2 * (k + 1)))
    assert scipy.stats.kstest(magnitude, scipy.stats.rice(np.sqrt(k / (k + 1)) / sigma, scale=sigma).cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", fading.PROFILES)
@pytest.mark.parametrize("kind", ["none", "rayleigh", "rician"])
def test_profiles_have_their_mean_powers_at_their_delays(name, kind):
    profile = fading.PROFILES[name]
    taps = fading.impulse_responses(N, profile, kind, 20e6, np.random.default_rng(3))
    measured = np.mean(np.abs(taps) ** 2, axis=0)
    expected = np.zeros(taps.shape[1])
    np.add.at(expected, np.rint(np.array(profile.delays_seconds) * 20e6).astype(int), profile.powers())
    np.testing.assert_allclose(measured, expected, atol=5 * expected.max() / np.sqrt(N))
    assert measured.sum() == pytest.approx(1, abs=5 / np.sqrt(N))


@pytest.mark.parametrize("rate_hz", [2e6, 20e6])
@pytest.mark.parametrize("name", fading.PROFILES)
def test_without_fading_the_power_is_exactly_one(name, rate_hz):
    taps = fading.impulse_responses(1, fading.PROFILES[name], "none", rate_hz, np.random.default_rng(4))
    assert np.sum(np.abs(taps) ** 2) == pytest.approx(1)


def test_the_line_of_sight_has_a_random_phase():
    phase = np.angle(fading.gains((N,), "rician", np.random.default_rng(5), 30.0))
    assert scipy.stats.kstest(phase, scipy.stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_delay_spreads_are_the_published_ones():
    """RMS delay spreads by the definition, in ns; the tables of 3GPP round them to 45, 357 and 991."""
    for name, expected_ns in (("epa", 45), ("eva", 357), ("etu", 991)):
        assert fading.PROFILES[name].rms_delay_spread_seconds() * 1e9 == pytest.approx(expected_ns, abs=2)


def test_all_profiles_but_etu_fit_into_the_prefix_at_20_msps():
    for name, profile in fading.PROFILES.items():
        assert (max(profile.delays_seconds) * 20e6 < 64) == (name != "etu")
