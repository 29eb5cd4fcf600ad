# SPDX-License-Identifier: GPL-3.0-or-later
"""The scale, the noise and the mean gain against their definitions, scipy's distributions and drawn channels."""

import numpy as np
import pytest
from scipy import stats

from fl_app.air import AirSettings
from fl_app.air.simulation.gains import draw_flat_gains, mean_gain
from fl_app.air.simulation.levels import analog_levels, reports
from oac_blocks.dsp.channel import fading
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


def test_flat_gains_have_the_papers_mean_and_variance():
    h = draw_flat_gains(200_000, AirSettings(mode="analog"), np.random.default_rng(5)).astype(np.float64)
    variance = 4 / np.pi - 1  # of a Rayleigh variable of mean 1
    assert abs(h.mean() - 1) < 3 * np.sqrt(variance / len(h))
    assert stats.kstest(h, stats.rayleigh(scale=np.sqrt(2 / np.pi)).cdf).pvalue > 1e-3
