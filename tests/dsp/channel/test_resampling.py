# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest

from oac_blocks.dsp import Numerology, fsk_mv, ofdm
from oac_blocks.dsp.channel.resampling import resample, resample_exact
from oac_blocks.dsp.phasor import phasors
from tests.support.signals import error_db

NUM = Numerology()


def votes_burst(symbols, seed=0):
    rng = np.random.default_rng(seed)
    votes = rng.choice(np.array([-1, 1], np.int8), 96 * symbols)
    return ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)


def clock(samples, ppm, delay=100.37):
    return (np.arange(samples) - delay) * (1 + ppm * 1e-6)


def gaussian_tones(t, length):
    """A signal known between its samples: tones up to 0.42 of the rate under a Gaussian, zero at both ends."""
    envelope = np.exp(-(((t - length / 2) / (length / 12)) ** 2))
    return envelope * sum(np.exp(2j * np.pi * f * t + 1j * i) for i, f in enumerate((-0.42, -0.2, 0.01, 0.33, 0.41)))


@pytest.mark.parametrize("ppm", [0, 20, -20, 150, 1000])
def test_both_resamplers_against_a_signal_known_in_closed_form(ppm):
    length = 20_000
    positions = clock(length + 200, ppm)
    x = gaussian_tones(np.arange(length), length).astype(np.complex64)
    truth = gaussian_tones(positions, length)
    assert error_db(resample_exact(x, positions), truth) < -110
    assert error_db(resample(x, positions), truth) < -90


def test_the_exact_one_is_a_sum_of_sincs():
    """The definition, term by term; a short burst, ends included, and its silent surroundings."""
    x = votes_burst(6)
    positions = clock(len(x) + 300, 20, delay=150.37)
    direct = np.sinc(positions[:, None] - np.arange(len(x))) @ x.astype(np.complex128)
    assert error_db(resample_exact(x, positions), direct) < -70


def test_fast_and_exact_agree_over_1138_symbols_at_20_ppm():
    x = votes_burst(1138)
    positions = clock(len(x) + 200, 20)
    error = error_db(resample(x, positions), resample_exact(x, positions))
    print(f"fast against exact resampler: {error:.1f} dB")
    assert error < -50


@pytest.mark.parametrize("ppm", [-20, 20])
def test_no_part_of_the_burst_is_worse_than_the_rest(ppm):
    """The error by symbol: a block border or a change of the whole delay would stand out."""
    x = votes_burst(300)
    positions = clock(len(x), ppm, delay=0.4)
    difference = np.abs(resample(x, positions) - resample_exact(x, positions)).reshape(-1, 320) ** 2
    worst_db = 10 * np.log10(difference.mean(axis=1)[1:-1].max() / np.mean(np.abs(x) ** 2))
    assert worst_db < -45


def test_a_wandering_clock_is_followed():
    x = votes_burst(200)
    n = np.arange(len(x))
    positions = n + 3.3 + 0.8 * np.sin(2 * np.pi * n / 30_000)  # up to 168 ppm, changing
    assert error_db(resample(x, positions), resample_exact(x, positions)) < -50


def test_rows_are_resampled_each_at_its_own_positions():
    x = np.stack([votes_burst(20, seed) for seed in range(3)])
    positions = np.stack([clock(6400, ppm) for ppm in (-20, 0, 40)])
    together = resample(x, positions)
    for i in range(3):
        np.testing.assert_allclose(together[i], resample(x[i], positions[i]), atol=1e-5)


def test_before_and_after_the_burst_there_is_nothing():
    x = votes_burst(2)
    y = resample(x, np.arange(20_000) - 10_000.0)
    np.testing.assert_allclose(y[10_000:10_640], x, atol=1e-5)
    assert np.abs(np.delete(y, slice(10_000, 10_640))).max() < 1e-5


def test_positions_that_are_no_clock_are_refused():
    with pytest.raises(ValueError, match=r"positions must be nearly one apart"):
        resample(votes_burst(20), np.arange(6000) * 1.5)


def test_phasors_are_exponentials_to_float32_however_long():
    frequencies = np.array([0.0, 1e-3, -2.9])
    expected = np.exp(1j * frequencies[:, None] * np.arange(1_000_000))
    np.testing.assert_allclose(phasors(frequencies, 1_000_000), expected, atol=5e-7)
    np.testing.assert_allclose(phasors(0.3, 10, first=-5), np.exp(0.3j * np.arange(-5, 5)), atol=5e-7)
