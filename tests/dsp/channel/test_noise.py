# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest

from oac_blocks.dsp.channel import noise

SAMPLES = 400_000


@pytest.mark.parametrize("power", [0.0, 0.01, 3.0])
def test_gaussian_noise_is_circular_and_of_the_given_power(power):
    z = noise.complex_gaussian(SAMPLES, power, np.random.default_rng(1))
    assert z.dtype == np.complex64
    assert np.mean(np.abs(z) ** 2) == pytest.approx(power, rel=5 / np.sqrt(SAMPLES))
    assert abs(np.mean(z**2)) <= 5 * power / np.sqrt(SAMPLES)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 1.9, 2.0])
def test_stable_noise_has_the_stable_characteristic_function(alpha):
    """E e^{j Re(u* z)} = exp(-(power |u|^2 / 4)^(alpha/2)) in every direction u."""
    power = 2.0
    z = noise.complex_alpha_stable(SAMPLES, alpha, power, np.random.default_rng(2)).astype(np.complex128)
    for magnitude in (0.2, 0.7, 1.5, 3.0):
        expected = np.exp(-((power * magnitude**2 / 4) ** (alpha / 2)))
        for angle in (0.0, 1.0, 2.5):
            u = magnitude * np.exp(1j * angle)
            measured = np.mean(np.exp(1j * (np.conj(u) * z).real))
            assert abs(measured - expected) < 4.5 / np.sqrt(SAMPLES)


def test_stable_noise_has_heavy_tails_of_index_alpha():
    """P(|z| > r) falls as r^-alpha: a decade further out, ten to the alpha fewer samples."""
    z = np.abs(noise.complex_alpha_stable(4_000_000, 1.2, 1.0, np.random.default_rng(3)))
    near, far = np.sum(z > 30), np.sum(z > 300)
    assert np.log10(near / far) == pytest.approx(1.2, abs=4 * np.log10(np.e) / np.sqrt(far))


def test_quantiser_steps_and_clips_like_a_12_bit_converter():
    x = np.complex64([0, 1 / 2048, 0.6 / 2048 + 0.4j / 2048, 5 - 5j, 0.25 - 0.5j])
    y = noise.quantise(x, bits=12)
    np.testing.assert_array_equal(y, np.complex64([0, 1 / 2048, 1 / 2048, 2047 / 2048 - 1j, 0.25 - 0.5j]))


def test_quantisation_noise_is_a_twelfth_of_a_step_squared():
    rng = np.random.default_rng(4)
    x = (rng.uniform(-0.9, 0.9, (100_000, 2)) @ [1, 1j]).astype(np.complex64)
    error = noise.quantise(x, bits=10, full_scale=1.0) - x
    assert np.mean(np.abs(error) ** 2) == pytest.approx(2 * (1 / 512) ** 2 / 12, rel=0.02)
