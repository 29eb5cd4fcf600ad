# SPDX-License-Identifier: GPL-3.0-or-later
"""The scale, the noise and the mean gain against their definitions, scipy's distributions and drawn channels."""

import numpy as np
import pytest
from scipy import stats

from fl_app.air import AirSettings
from fl_app.air.pilots import residual_cfo_hz
from fl_app.air.scales import reports
from fl_app.air.simulation.gains import draw_flat_gains, mean_gain
from fl_app.air.simulation.levels import analog_levels
from oac_blocks.dsp.channel import fading
from oac_blocks.dsp.channel.crystal import walk_path_ppm
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.waveform.analog import precoder
from tests.support.statistics import assert_mean, share_std


def test_scale_puts_unit_energy_on_a_subcarrier_and_noise_follows():
    entries = np.random.default_rng(1).normal(0, 3e-4, (3, 1000)).astype(np.float32)
    size = np.sqrt(np.mean(entries.astype(np.float64) ** 2))
    levels = analog_levels(AirSettings(mode="analog", snr_db=10.0), entries, 1.0)
    assert 2 * (levels.scale * size) ** 2 == pytest.approx(1, rel=1e-6)
    # Energy 1 a subcarrier is energy rms^2 an entry, so the noise on an entry is rms^2 / snr.
    assert levels.entry_noise_std == pytest.approx(size / np.sqrt(10), rel=1e-6)


def test_noise_std_is_the_noise_on_an_entry_whatever_the_scale_and_gain():
    for size, gain in ((1e-4, 1.0), (5.0, 0.8)):
        entries = np.full((2, 10), size, np.float32)
        levels = analog_levels(AirSettings(mode="analog", noise_std=1.0, snr_db=3.0), entries, gain)
        assert levels.entry_noise_std == pytest.approx(1.0)


def test_rms_neither_overflows_nor_loses():
    huge = np.full((2, 100), 1e30, np.float32)
    rms, peak = reports(huge)
    assert rms == pytest.approx([1e30, 1e30])
    assert peak == pytest.approx([1e30, 1e30])
    rms, peak = reports(np.zeros((2, 3), np.float32))
    assert 0 < rms.max() <= 1e-30
    assert 0 < peak.max() <= 1e-30


@pytest.mark.parametrize("least", [0.05, 0.5])
@pytest.mark.parametrize("k_db", [-10.0, 3.0, 20.0])
def test_mean_gain_in_flat_rician_fading_is_scipys(k_db, least):
    k = 10 ** (k_db / 10)
    rice = stats.rice(np.sqrt(2 * k), scale=np.sqrt(1 / (2 * (k + 1))))
    phase = AirSettings(mode="analog", fading="rician", rician_k_db=k_db)
    assert mean_gain(phase) == pytest.approx(rice.mean(), rel=1e-9)
    truncated = AirSettings(
        mode="analog", fading="rician", rician_k_db=k_db, inversion="truncated", least_magnitude=least
    )
    assert mean_gain(truncated) == pytest.approx(rice.sf(least), rel=1e-9)


def test_mean_gain_in_rayleigh_fading_is_half_the_root_of_pi_on_any_profile():
    for profile in fading.PROFILES:
        assert mean_gain(AirSettings(mode="analog", profile=profile)) == pytest.approx(np.sqrt(np.pi) / 2)


@pytest.mark.parametrize("inversion", ["phase", "truncated"])
def test_mean_gain_with_echoes_is_that_of_drawn_channels(inversion):
    settings = AirSettings(
        mode="analog", fading="rician", rician_k_db=6.0, profile="eva", inversion=inversion, least_magnitude=0.4
    )
    rng = np.random.default_rng(3)
    taps = fading.impulse_responses(20_000, fading.PROFILES["eva"], "rician", 20e6, rng, 6.0)
    # One subcarrier: the channels are independent, the subcarriers of one channel are not.
    response = np.abs(taps @ np.exp(-2j * np.pi * 0.13 * np.arange(taps.shape[1])))
    remaining = response if inversion == "phase" else (response >= 0.4).astype(float)
    mean = mean_gain(settings)
    most = np.sqrt(1 - mean**2) if inversion == "phase" else share_std(mean)  # |h|^2 has the mean 1
    assert_mean(remaining, mean, most)


@pytest.mark.parametrize("least", [0.1, 0.6])
@pytest.mark.parametrize("pilot_noise", [1e-3, 0.2, 2.0])
@pytest.mark.parametrize(("fade", "k_db"), [("none", 0.0), ("rayleigh", 0.0), ("rician", -3.0), ("rician", 8.0)])
@pytest.mark.parametrize("inversion", ["phase", "truncated"])
def test_mean_gain_with_a_noisy_pilot_is_that_of_drawn_channels(inversion, fade, k_db, pilot_noise, least):
    settings = AirSettings(mode="analog", fading=fade, rician_k_db=k_db, inversion=inversion, least_magnitude=least)
    rng = np.random.default_rng(11)
    h = fading.gains((100_000,), fade, rng, k_db)
    estimate = h + complex_gaussian(len(h), pilot_noise, rng)
    remaining = (h * precoder(estimate, inversion, least)).real
    # No gain has a larger mean square than |h|^2, or |h / estimate|^2 <= |h|^2 / least^2.
    most = 1.0 if inversion == "phase" else 1 / least
    assert_mean(remaining, mean_gain(settings, pilot_noise=pilot_noise), most, 4)


@pytest.mark.parametrize("pilot_snr_db", [60.0, 100.0, 150.0, 200.0])
@pytest.mark.parametrize("inversion", ["phase", "truncated"])
def test_mean_gain_with_a_fine_pilot_is_that_of_a_known_channel(inversion, pilot_snr_db):
    for fade in ("none", "rayleigh", "rician"):
        settings = AirSettings(mode="analog", fading=fade, inversion=inversion)
        known = mean_gain(settings)
        assert mean_gain(settings, pilot_noise=10 ** (-pilot_snr_db / 10)) == pytest.approx(known, rel=3e-6)


@pytest.mark.parametrize("rate_hz", [1e6, 2.5e6, 20e6])
@pytest.mark.parametrize("profile", ["indoor", "epa", "etu"])
def test_rician_mean_gain_counts_paths_on_one_sample_as_one_tap(profile, rate_hz):
    """At 2.5 Msps all but the last path of EPA are one tap: 0.976, not the 0.892 of a line of sight in the first."""
    settings = AirSettings(mode="analog", fading="rician", profile=profile, sample_rate_hz=rate_hz)
    taps = fading.impulse_responses(40_000, fading.PROFILES[profile], "rician", rate_hz, np.random.default_rng(3))
    response = np.abs(taps @ np.exp(-2j * np.pi * 0.13 * np.arange(taps.shape[1])))
    mean = mean_gain(settings)
    assert_mean(response, mean, np.sqrt(1 - mean**2))


def test_the_residual_offset_of_the_default_is_the_bound_of_the_pilots_samples():
    """192 of 256 subcarriers carry the pilot: its samples have 3/4 of a subcarrier's SNR."""
    common = {"mode": "analog", "clock_walk_ppm": 0.0}
    for symbols, snr_db in ((16, 30.0), (4, 30.0), (6, 20.0)):
        length, snr = 320 * symbols, 0.75 * 10 ** (snr_db / 10)
        bound = np.sqrt(6 / (snr * length * (length**2 - 1))) * 20e6 / (2 * np.pi)
        settings = AirSettings(**common, pilot_symbols=symbols, pilot_snr_db=snr_db)
        assert residual_cfo_hz(settings) == pytest.approx(bound, rel=1e-9)
    assert residual_cfo_hz(AirSettings(**common, pilot_snr_db=None)) == 0
    assert residual_cfo_hz(AirSettings(**common, cfo_residual_hz=3.0)) == 3.0
    assert residual_cfo_hz(AirSettings()) == 10.0  # votes


def test_the_crystals_walk_after_the_pilot_is_a_part_of_the_residual_offset():
    """The phase is the integral of the rate: drawn walks have the spread of a constant offset of that size."""
    age, walk_ppm, carrier_hz, steps = 0.02, 0.05, 2.4e9, 400
    settings = AirSettings(mode="analog", pilot_snr_db=None, clock_walk_ppm=walk_ppm, pilot_age_seconds=age)
    normals = np.random.default_rng(8).standard_normal((20_000, steps))
    rates = walk_path_ppm(np.zeros(len(normals)), walk_ppm, age / steps, normals)[:, :-1]
    cycles = 1e-6 * carrier_hz * rates.mean(axis=1) * age
    assert cycles.std() == pytest.approx(residual_cfo_hz(settings) * age, rel=0.02)


def test_flat_gains_have_the_papers_mean_and_variance():
    h = draw_flat_gains(200_000, AirSettings(mode="analog"), np.random.default_rng(5)).astype(np.float64)
    variance = 4 / np.pi - 1  # of a Rayleigh variable of mean 1
    assert abs(h.mean() - 1) < 3 * np.sqrt(variance / len(h))
    assert stats.kstest(h, stats.rayleigh(scale=np.sqrt(2 / np.pi)).cdf).pvalue > 1e-3
