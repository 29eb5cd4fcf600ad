# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest

from oac_blocks.dsp import Numerology, bounds, channel, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.channel.multiple_access import Link, Receiver, transmit
from oac_blocks.dsp.channel.resampling import resample_exact
from tests.support.signals import error_db
from tests.support.statistics import assert_mean
from tests.support.vote_theory import vote_rate_std

NUM = Numerology()
RATE = NUM.sample_rate_hz


def bursts(clients, symbols=10, seed=0):
    rng = np.random.default_rng(seed)
    votes = rng.choice(np.array([-1, 1], np.int8), (clients, 96 * symbols))
    return ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)


def test_a_plain_channel_adds_up_to_the_bit():
    x = bursts(3)
    links = [Link(stream_offset_samples=offset) for offset in (0, 7, 100)]
    y = transmit(x, links, Receiver(), RATE, np.random.default_rng(1), samples=3500).samples
    expected = np.zeros((3, 3500), np.complex64)
    for row, burst, offset in zip(expected, x, (0, 7, 100), strict=True):
        row[offset : offset + 3200] = burst
    np.testing.assert_array_equal(y, expected.sum(axis=0))


def test_early_bursts_lose_their_head():
    x = bursts(1)
    y = transmit(x, [Link(stream_offset_samples=-50)], Receiver(), RATE, np.random.default_rng(1), 200).samples
    np.testing.assert_array_equal(y, x[0, 50:250])


@pytest.mark.parametrize(
    ("ppm", "delay", "offset"), [(20.0, 0.0, 0), (-20.0, 3.3, 10), (0.0, 0.5, 0), (500.0, 2.25, 5), (-1000.0, 0.0, 0)]
)
def test_sample_m_arrives_when_the_clocks_say_so(ppm, delay, offset):
    """Server time of client sample m: offset + delay + m / (1 + ppm 1e-6)."""
    x = bursts(1, 100)
    link = Link(clock_ppm=ppm, delay_samples=delay, stream_offset_samples=offset)
    y = transmit(x, [link], Receiver(), RATE, np.random.default_rng(1)).samples
    positions = (np.arange(len(y)) - offset - delay) * (1 + ppm * 1e-6)
    assert error_db(y, resample_exact(x[0], positions)) < -50
    assert len(y) >= offset + delay + x.shape[1] / (1 + ppm * 1e-6)


def test_frequency_offset_turns_the_burst():
    x = bursts(1)
    y = transmit(x, [Link(cfo_hz=12_345.0)], Receiver(), RATE, np.random.default_rng(1), x.shape[1]).samples
    n = np.arange(x.shape[1])
    np.testing.assert_allclose(y, x[0] * np.exp(2j * np.pi * 12_345 / RATE * n), atol=1e-5)


def test_gain_and_echoes_are_a_convolution():
    x = bursts(2)
    profile = DelayProfile((0.0, 5 / RATE, 30 / RATE), (0.0, -3.0, -6.0))
    links = [Link(gain_db=-6.0, fading="rayleigh", profile=profile), Link(fading="rayleigh", profile=profile)]
    reception = transmit(x, links, Receiver(), RATE, np.random.default_rng(1))
    taps = reception.impulse_responses
    expected = np.convolve(x[0], taps[0]) + np.convolve(x[1], taps[1])
    np.testing.assert_allclose(reception.samples[: len(expected)], expected, atol=2e-5)
    powers = [
        np.sum(np.abs(channel.draw_impulse_responses(links, RATE, np.random.default_rng(i))) ** 2, axis=1)
        for i in range(4000)
    ]
    np.testing.assert_allclose(np.mean(powers, axis=0), [10**-0.6, 1], rtol=5 / np.sqrt(4000))


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 30.0])
def test_snr_is_that_of_a_unit_subcarrier(snr_db):
    silence = np.zeros((1, 320 * 300), np.complex64)
    silence[0, 0] = 1e-20
    y = transmit(silence, [Link()], Receiver(snr_db=snr_db), RATE, np.random.default_rng(1), silence.shape[1]).samples
    measured = np.mean(np.abs(ofdm.demodulate(y, NUM)) ** 2)
    assert measured == pytest.approx(10 ** (-snr_db / 10), rel=5 / np.sqrt(300 * 192))


def test_a_walking_clock_walks_as_a_random_walk_should():
    """After time t the rate has moved by walk * sqrt(t) ppm in standard deviation."""
    links = [Link(clock_ppm=5.0, clock_walk_ppm=2.0)] * 500
    rates, ends = channel.clock_rates_ppm(links, RATE, int(0.25 * RATE), np.random.default_rng(1))
    assert rates.shape == (500, -(-int(0.25 * RATE) // 1024))
    np.testing.assert_array_equal(rates[:, 0], 5.0)
    assert np.mean(ends) == pytest.approx(5.0, abs=4 * 1.0 / np.sqrt(500))
    assert np.std(ends) == pytest.approx(1.0, rel=4 / np.sqrt(2 * 500))


def test_no_clock_walks_beyond_what_the_resampler_follows():
    links = [Link(clock_ppm=999.0, clock_walk_ppm=500.0)] * 20
    rates, ends = channel.clock_rates_ppm(links, RATE, int(0.25 * RATE), np.random.default_rng(2))
    assert np.abs(rates).max() == channel.MAX_PPM
    assert np.abs(ends).max() <= channel.MAX_PPM


@pytest.mark.parametrize("arrival", [-5000.3, 0.0, 700.2, 1024.0, 9999.9])
def test_a_walking_clock_still_starts_at_its_arrival(arrival):
    """Whatever the clock did before, sample 0 of the burst comes at the stated time."""
    rates = np.cumsum(np.random.default_rng(3).standard_normal((1, 12)) * 30, axis=1)
    at = channel.positions(np.array([arrival]), rates, 12 * 1024)[0]
    if arrival < 0:
        assert at[0] == pytest.approx(-arrival * (1 + rates[0, 0] * 1e-6))
    else:
        assert np.interp(arrival, np.arange(len(at)), at) == pytest.approx(0, abs=1e-9)


def test_positions_integrate_the_rates():
    rates = np.array([[10.0, -20.0, 40.0]])
    at = channel.positions(np.array([0.0]), rates, 3000)
    steps = np.diff(at[0])
    np.testing.assert_allclose(steps[:1000], 1 + 10e-6, atol=1e-9)
    np.testing.assert_allclose(steps[1030:2040], 1 - 20e-6, atol=1e-9)
    np.testing.assert_allclose(steps[2050:], 1 + 40e-6, atol=1e-9)
    np.testing.assert_allclose(steps, 1, atol=50e-6)


def test_the_clock_of_the_next_burst_goes_on_where_this_one_ended():
    x = bursts(2, 50)
    links = [Link(clock_ppm=10.0, clock_walk_ppm=3.0), Link(clock_ppm=-7.0)]
    after = transmit(x, links, Receiver(), RATE, np.random.default_rng(2)).links
    assert after[0].clock_ppm != 10.0
    assert after[1].clock_ppm == -7.0


def test_same_seed_same_samples_and_other_seed_others():
    x = bursts(2)
    link = Link(fading="rayleigh", profile="eva", clock_ppm=20, clock_walk_ppm=1, cfo_hz=100, delay_samples=2.5)
    receiver = Receiver(snr_db=10, noise_alpha=1.7, adc_bits=12, adc_full_scale=4)
    a, b, c = (transmit(x, [link] * 2, receiver, RATE, np.random.default_rng(s)).samples for s in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert np.any(a != c)


def test_everything_at_once_still_gives_the_closed_form():
    """Clocks at +-20 ppm, 1 kHz of frequency offset, echoes, delays, a 12-bit converter: the votes do not care.

    A kilohertz is 1.3 % of the subcarrier spacing: leakage (pi 0.013)^2 / 3, -33 dB, is far below the noise at 10 dB.
    """
    rng = np.random.default_rng(3)
    votes = np.ones((2, 960), np.int8)
    receiver = Receiver(snr_db=10, adc_bits=12, adc_full_scale=8.0)
    rates = []
    for _ in range(300):
        links = [
            Link(fading="rayleigh", profile="eva", clock_ppm=ppm, clock_walk_ppm=1, cfo_hz=50 * ppm, delay_samples=4.4)
            for ppm in (-20.0, 20.0)
        ]
        burst = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)
        y = transmit(burst, links, receiver, RATE, rng, burst.shape[1]).samples
        rates.append(np.mean(fsk_mv.detect(ofdm.demodulate(y, NUM), 960, NUM) < 0))
    expected = bounds.mv_error_probability(2, 0, 10.0)
    assert_mean(rates, expected, 1.2 * vote_rate_std(2, 2 * 960, 10.0))  # in half of the fair votes two agree
