# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology, fsk_mv, ofdm

NUM = Numerology()
NUMEROLOGIES = st.builds(
    Numerology,
    fft_size=st.sampled_from([64, 100, 256]),
    cp_samples=st.integers(0, 64),
    active_subcarriers=st.sampled_from([4, 12, 48]),
    dc_nulls=st.sampled_from([0, 2, 8]),
)


def random_grid(rng, *shape):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def test_one_subcarrier_is_a_sampled_exponential():
    """The closed form: subcarrier f of unit energy is e^{2 pi j f n} / sqrt(256), continued into the prefix."""
    for column, frequency in enumerate(NUM.subcarrier_frequencies()):
        grid = np.zeros((1, 192), np.complex64)
        grid[0, column] = 1
        n = np.arange(320) - 64
        np.testing.assert_allclose(ofdm.modulate(grid, NUM), np.exp(2j * np.pi * frequency * n) / 16, atol=1e-6)


@given(num=NUMEROLOGIES, symbols=st.integers(1, 7), clients=st.integers(1, 3), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_demodulate_inverts_modulate(num, symbols, clients, seed):
    grid = random_grid(np.random.default_rng(seed), clients, symbols, num.active_subcarriers)
    x = ofdm.modulate(grid, num)
    assert x.dtype == np.complex64
    assert x.shape == (clients, symbols * num.symbol_samples)
    np.testing.assert_allclose(ofdm.demodulate(x, num), grid, atol=1e-5)


def test_noise_variance_is_the_same_in_both_domains():
    rng = np.random.default_rng(1)
    noise = random_grid(rng, 2000 * 320) / np.sqrt(2)
    power = np.mean(np.abs(ofdm.demodulate(noise, NUM)) ** 2)
    assert power == pytest.approx(1, abs=5 / np.sqrt(2000 * 192))


@pytest.mark.parametrize("early", [1, 20, 64])
def test_an_early_window_sees_the_same_grid(early):
    grid = random_grid(np.random.default_rng(2), 5, 192)
    np.testing.assert_allclose(ofdm.demodulate(ofdm.modulate(grid, NUM), NUM, early_samples=early), grid, atol=2e-5)


def test_pmepr_of_one_two_and_all_tones():
    """One tone has a flat envelope (0 dB), two beat to 3.01 dB, 192 in phase peak at 10 log10(192) dB."""
    grid = np.zeros((4, 192), np.complex64)
    grid[0, 7] = 1
    grid[1, [3, 90]] = 1
    grid[2, :] = 1
    pmepr = ofdm.pmepr_db(grid, NUM, oversampling=8)
    np.testing.assert_allclose(pmepr[:3], [0, 10 * np.log10(2), 10 * np.log10(192)], atol=0.02)
    assert np.isnan(pmepr[3])


def test_random_qpsk_lowers_the_peaks_of_votes():
    """One client, all votes alike (the worst case): unrandomised, the tones add up to a pulse."""
    rng = np.random.default_rng(3)
    votes = np.ones(96 * 3000, np.int8)
    plain = np.percentile(ofdm.pmepr_db(fsk_mv.encode(votes[: 96 * 10], NUM, None), NUM), 99.9)
    random = np.percentile(ofdm.pmepr_db(fsk_mv.encode(votes, NUM, rng), NUM), 99.9)
    # 96 equal tones peak at 10 log10(96) = 19.8 dB; random phases give about 10.8 dB (Gaussian limit:
    # P(peak < z) ~ (1 - e^-z)^(2.8 * 96) reaches 99.9 % at z = 12.5, 11.0 dB).
    assert plain == pytest.approx(10 * np.log10(96), abs=0.1)
    assert 10.0 < random < 11.2
    print(
        f"99.9 % PMEPR: {plain:.1f} dB with one phase, {random:.1f} dB with random QPSK: {plain - random:.1f} dB less"
    )


def test_random_qpsk_lowers_the_peaks_of_random_votes_too():
    rng = np.random.default_rng(4)
    skewed = np.where(rng.random(96 * 2000) < 0.8, 1, -1).astype(np.int8)
    plain, random = (
        np.percentile(ofdm.pmepr_db(fsk_mv.encode(skewed, NUM, phases), NUM), 99.9) for phases in (None, rng)
    )
    assert plain - random > 3
