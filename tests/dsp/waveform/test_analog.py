# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology, analog, channel, ofdm
from tests.support.statistics import assert_mean, share_std

NUM = Numerology()


@given(k=st.integers(1, 5000), seed=st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_entries_come_back_without_noise(k, seed):
    entries = np.random.default_rng(seed).standard_normal(k).astype(np.float32)
    scale = analog.common_scale(1.0)
    grid = analog.encode(entries, NUM, scale)
    assert grid.shape == (-(-k // 384), 192)
    back = analog.decode(ofdm.demodulate(ofdm.modulate(grid, NUM), NUM), k, NUM, scale, n_clients=1)
    np.testing.assert_allclose(back, entries, atol=2e-5)


def test_two_entries_share_a_subcarrier():
    grid = analog.encode(np.float32([3, -4, 5]), NUM, 1.0).ravel()
    np.testing.assert_array_equal(grid[:3], [3 - 4j, 5, 0])


def test_common_scale_gives_unit_energy_a_subcarrier():
    entries = 0.02 * np.random.default_rng(1).standard_normal(384 * 200).astype(np.float32)
    grid = analog.encode(entries, NUM, analog.common_scale(0.02))
    assert np.mean(np.abs(grid) ** 2) == pytest.approx(1, rel=5 * np.sqrt(2 / entries.size))


def receive(entries, inversion, snr_db, scale, rng, links):
    """One burst of all clients; each knows its own channel, the server knows the scale."""
    n_clients, k = entries.shape
    taps = channel.draw_impulse_responses(links, NUM.sample_rate_hz, rng)
    delays = np.arange(taps.shape[1])
    response = taps @ np.exp(-2j * np.pi * np.outer(delays, NUM.subcarrier_frequencies()))
    precoding = analog.precoder(response.astype(np.complex64), inversion, 0.3)[:, None, :]
    grid = analog.encode(entries, NUM, scale, precoding) * response[:, None, :]
    noise_power = 10 ** (-snr_db / 10)
    noise = np.sqrt(noise_power / 2) * rng.standard_normal((*grid.shape[1:], 2)).view(np.complex128)[..., 0]
    return analog.decode((grid.sum(axis=0) + noise).astype(np.complex64), k, NUM, scale, n_clients), np.abs(response)


def test_phase_only_inversion_is_equation_7():
    """(1/N)(sum h g + xi): the mean gain is E|h|, its variance that of |h|, the noise s2 / (2 scale^2) before 1/N."""
    rng = np.random.default_rng(2)
    n_clients, k, rounds = 4, 384, 4000
    entries = np.repeat(rng.standard_normal((n_clients, 1)), k, axis=1).astype(np.float32)
    link = channel.Link(fading="rayleigh", gain_db=10 * np.log10(4 / np.pi))  # so that E|h| = 1, the paper's mu_c
    scale, snr_db = analog.common_scale(1.0), 3.0
    received = np.array([receive(entries, "phase", snr_db, scale, rng, [link] * n_clients)[0] for _ in range(rounds)])
    g = entries[:, 0].astype(np.float64)
    fading_variance = (4 / np.pi - 1) * np.sum(g**2) / n_clients**2
    noise_variance = 10 ** (-snr_db / 10) / (2 * scale**2) / n_clients**2
    # Within a round all entries see the same flat gains: the round's mean shows the fading, the rest is noise.
    means = received.mean(axis=1)
    assert means.mean() == pytest.approx(g.mean(), abs=4 * np.sqrt(fading_variance / rounds))
    assert means.var() == pytest.approx(fading_variance + noise_variance / k, rel=5 * np.sqrt(2 / rounds))
    within = received.var(axis=1, ddof=1).mean()
    assert within == pytest.approx(noise_variance, rel=5 * np.sqrt(2 / (rounds * k)))


def test_truncated_inversion_sends_the_entry_or_nothing():
    rng = np.random.default_rng(3)
    link = channel.Link(fading="rayleigh", profile="eva")
    entries = np.ones((1, 384), np.float32)
    silent = []
    for _ in range(400):
        received, magnitude = receive(entries, "truncated", 200.0, 1.0, rng, [link])
        expected = np.repeat(magnitude[0] >= 0.3, 2)
        np.testing.assert_allclose(received, expected, atol=1e-5)
        silent.append(1 - expected.mean())
    probability = analog.truncation_probability(0.3)
    assert_mean(silent, probability, share_std(probability), 4)


def test_the_mean_gain_makes_the_estimate_unbiased():
    grid = analog.encode(np.ones(384, np.float32), NUM, 1.0) * np.float32(0.5)
    np.testing.assert_allclose(analog.decode(grid, 384, NUM, 1.0, 1, mean_gain=0.5), 1)


def test_a_channel_of_zero_is_not_divided_by():
    for inversion in ("phase", "truncated"):
        assert np.isfinite(analog.precoder(np.zeros(4, np.complex64), inversion)).all()
