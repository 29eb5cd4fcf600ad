# SPDX-License-Identifier: GPL-3.0-or-later
"""FSK-MV through the whole chain, measured against the closed form of the error rate."""

import numpy as np
import pytest

from oac_blocks.dsp import Numerology, bounds, channel, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import DelayProfile
from tests.support.statistics import share_std

NUM = Numerology()
# Equal echoes over 48 samples: a Rayleigh channel that changes every few subcarriers, inside the prefix of 64.
DENSE = DelayProfile(tuple(i / NUM.sample_rate_hz for i in range(48)), (0.0,) * 48)
LINK = channel.Link(fading="rayleigh", profile=DENSE)
VOTES = 100_000
POINTS = [
    # K+, K-, SNR in dB, repeats
    (1, 0, 0, 1),
    (1, 0, 10, 1),
    (2, 0, 20, 1),
    (2, 1, 10, 1),
    (3, 2, 20, 1),
    (10, 5, 5, 1),
    (7, 1, -5, 1),
    (1, 0, 0, 2),
    (2, 1, 10, 3),
    (3, 1, 0, 4),
    (4, 3, 20, 8),
    (1, 3, 10, 1),
    (0, 2, 3, 2),
    (1, 0, 20, 2),
]


def independent_fading_error_rate(k_plus, k_minus, snr, repeats, rng):
    """The model of the closed form itself: every client and every pair fades on its own."""
    clients = k_plus + k_minus
    votes = np.repeat(np.array([1, -1], np.int8), [k_plus, k_minus])[:, None].repeat(1000, axis=1)
    wrong = 0
    for _ in range(VOTES // 1000):
        grid = fsk_mv.encode(votes, NUM, rng, repeats)
        pairs = grid.shape[-2] * 96
        h = (rng.standard_normal((clients, pairs, 1)) + 1j * rng.standard_normal((clients, pairs, 1))) / np.sqrt(2)
        received = np.sum(grid.reshape(clients, pairs, 2) * h, axis=0).reshape(grid.shape[1:])
        noise = rng.standard_normal((*received.shape, 2)).view(np.complex128)[..., 0] * np.sqrt(0.5 / snr)
        soft = fsk_mv.detect((received + noise).astype(np.complex64), 1000, NUM, repeats)
        wrong += np.sum(soft < 0 if k_plus > k_minus else soft > 0)
    return wrong / VOTES


def burst_errors(k_plus, k_minus, snr_db, repeats, rng, *, k=480, link=LINK, early=0):
    """Errors of one burst of k votes through modulator, multipath channel, noise and demodulator."""
    votes = np.repeat(np.array([1, -1], np.int8), [k_plus, k_minus])[:, None].repeat(k, axis=1)
    burst = ofdm.modulate(fsk_mv.encode(votes, NUM, rng, repeats), NUM)
    receiver = channel.Receiver(snr_db=snr_db)
    received = channel.transmit(burst, [link] * len(votes), receiver, NUM.sample_rate_hz, rng, burst.shape[-1]).samples
    soft = fsk_mv.detect(ofdm.demodulate(received, NUM, early), k, NUM, repeats)
    return np.mean(soft < 0 if k_plus > k_minus else soft > 0)


def waveform_error_rate(*point, rng, bursts, **options):
    """Mean over bursts and its standard error, at most that of bursts whose votes all share one fade."""
    rates = np.array([burst_errors(*point, rng, **options) for _ in range(bursts)])
    k_plus, k_minus, snr_db, repeats = point
    most = share_std(bounds.mv_error_probability(k_plus, k_minus, 10 ** (snr_db / 10), repeats))
    return rates.mean(), min(rates.std(ddof=1), most) / np.sqrt(bursts)


@pytest.mark.parametrize(("k_plus", "k_minus", "snr_db", "repeats"), POINTS)
def test_error_rate_in_independent_fading_is_the_closed_form(k_plus, k_minus, snr_db, repeats):
    rng = np.random.default_rng([k_plus, k_minus, snr_db + 100, repeats])
    snr = 10 ** (snr_db / 10)
    expected = bounds.mv_error_probability(k_plus, k_minus, snr, repeats)
    measured = independent_fading_error_rate(k_plus, k_minus, snr, repeats, rng)
    standard_error = np.sqrt(expected * (1 - expected) / VOTES)
    assert abs(measured - expected) < 3 * standard_error, f"{measured:.5f}, closed form {expected:.5f}"


@pytest.mark.parametrize(("k_plus", "k_minus", "snr_db", "repeats"), POINTS)
def test_error_rate_through_the_waveform_is_the_closed_form(k_plus, k_minus, snr_db, repeats):
    """The copies of a vote lie at least 24 subcarriers apart, far beyond this channel's coherence of 5."""
    rng = np.random.default_rng([1, k_plus, k_minus, snr_db + 100, repeats])
    expected = bounds.mv_error_probability(k_plus, k_minus, 10 ** (snr_db / 10), repeats)
    measured, standard_error = waveform_error_rate(k_plus, k_minus, snr_db, repeats, rng=rng, bursts=VOTES // 480)
    assert abs(measured - expected) < 3 * standard_error, f"{measured:.5f}, closed form {expected:.5f}"


@pytest.mark.parametrize("offset", [0.0, 5.0, 7.4, 15.9])
def test_a_timing_offset_inside_the_prefix_changes_nothing(offset):
    """Prefix 64 = echoes 47 + up to 16 samples of lateness."""
    rng = np.random.default_rng([2, int(10 * offset)])
    link = channel.Link(fading="rayleigh", profile=DENSE, delay_samples=offset)
    expected = bounds.mv_error_probability(2, 0, 100.0)
    measured, standard_error = waveform_error_rate(2, 0, 20, 1, rng=rng, bursts=210, link=link)
    assert abs(measured - expected) < 3 * standard_error, f"{measured:.5f}, closed form {expected:.5f}"


def test_a_timing_offset_outside_of_the_prefix_hurts():
    rng = np.random.default_rng(3)
    link = channel.Link(fading="rayleigh", profile=DENSE, delay_samples=80.0)
    expected = bounds.mv_error_probability(2, 0, 100.0)
    measured, standard_error = waveform_error_rate(2, 0, 20, 1, rng=rng, bursts=100, link=link)
    assert measured > expected + 20 * standard_error
    assert measured > 5 * expected


def test_an_early_burst_is_saved_by_an_early_window():
    rng = np.random.default_rng(4)
    link = channel.Link(fading="rayleigh", profile="epa", delay_samples=-12.5)
    expected = bounds.mv_error_probability(2, 0, 100.0)
    hurt, _ = waveform_error_rate(2, 0, 20, 1, rng=rng, bursts=150, link=link)
    saved, standard_error = waveform_error_rate(2, 0, 20, 1, rng=rng, bursts=600, link=link, early=20)
    assert abs(saved - expected) < 3 * standard_error
    assert hurt > 1.5 * expected
