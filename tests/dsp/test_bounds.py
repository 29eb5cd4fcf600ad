# SPDX-License-Identifier: GPL-3.0-or-later
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.dsp import bounds


@given(k_plus=st.integers(0, 50), k_minus=st.integers(0, 50), snr=st.floats(0, 1e6), repeats=st.integers(1, 8))
def test_error_probability_is_the_finite_sum(k_plus, k_minus, snr, repeats):
    """The sum that counts the ways in which R exponentials lose against R others."""
    few, all_votes = min(k_plus, k_minus), k_plus + k_minus
    p = (snr * few + 1) / (snr * all_votes + 2)
    expected = sum(comb(repeats - 1 + j, j) * p**repeats * (1 - p) ** j for j in range(repeats))
    assert bounds.mv_error_probability(k_plus, k_minus, snr, repeats) == pytest.approx(expected, rel=1e-9)


def test_error_probability_limits():
    assert bounds.mv_error_probability(3, 3, 10.0) == 0.5
    assert bounds.mv_error_probability(5, 1, 0.0) == 0.5
    assert bounds.mv_error_probability(3, 1, 1e12) == pytest.approx(1 / 4)
    assert bounds.mv_error_probability(3, 1, 10.0) == bounds.mv_error_probability(1, 3, 10.0)
    np.testing.assert_allclose(bounds.mv_error_probability([1, 2], 0, 10.0), [1 / 12, 1 / 22])


def numerical_bounds(model, parameters, noise_power):
    """Inverse of the Fisher information of a signal in white noise, by numerical derivatives: no formula of ours."""
    step = 1e-5
    columns = []
    for i in range(len(parameters)):
        up, down = (np.array(parameters, float) for _ in range(2))
        up[i] += step
        down[i] -= step
        columns.append((model(up) - model(down)) / (2 * step))
    jacobian = np.array(columns)
    information = 2 / noise_power * (jacobian.conj() @ jacobian.T).real
    return np.diag(np.linalg.inv(information))


def shifted(waveform, delay, cfo, amplitude):
    """The waveform, zeros around it, delayed as a band-limited signal."""
    size = 64 * len(waveform)
    start = size // 2
    padded = np.zeros(size, complex)
    padded[start : start + len(waveform)] = waveform
    spectrum = np.fft.fft(padded) * np.exp(-2j * np.pi * np.fft.fftfreq(size) * delay)
    n = np.arange(size) - start - (len(waveform) - 1) / 2
    return amplitude * np.fft.ifft(spectrum) * np.exp(1j * cfo * n)


@pytest.mark.parametrize("kind", ["noise", "chirp", "off-centre"])
def test_bounds_are_the_inverse_fisher_information(kind):
    rng = np.random.default_rng(1)
    n = np.arange(48) - 24
    waveform = {
        "noise": rng.standard_normal(48) + 1j * rng.standard_normal(48),
        "chirp": np.exp(-((n / 12) ** 2) + 0.03j * n**2),
        "off-centre": np.exp(-((n / 9) ** 2) + 0.8j * n) * (1 + 0.3 * rng.standard_normal(48)),
    }[kind]
    snr = 7.0
    noise_power = np.mean(np.abs(waveform) ** 2) / snr

    def known_frequency(p):
        return shifted(waveform, p[0], 0.0, p[1] + 1j * p[2])

    def joint(p):
        return shifted(waveform, p[0], p[1], p[2] + 1j * p[3])

    delay_alone = numerical_bounds(known_frequency, [0.0, 1.0, 0.0], noise_power)[0]
    delay, cfo = numerical_bounds(joint, [0.0, 0.0, 1.0, 0.0], noise_power)[:2]
    assert bounds.delay_crlb(waveform, snr) == pytest.approx(delay_alone, rel=1e-3)
    np.testing.assert_allclose(bounds.joint_crlb(waveform, snr), (delay, cfo), rtol=2e-3)
    assert bounds.joint_crlb(waveform, snr)[0] >= bounds.delay_crlb(waveform, snr) * (1 - 1e-9)


def test_frequency_bound_of_a_tone_is_the_classical_one():
    n = np.arange(100)
    expected = numerical_bounds(lambda p: (p[1] + 1j * p[2]) * np.exp(1j * p[0] * n), [0.1, 1.0, 0.0], 1 / 5)[0]
    assert bounds.cfo_crlb(100, 5.0) == pytest.approx(expected, rel=1e-6)


def test_a_real_waveform_is_a_waveform():
    pulse = np.hanning(32)
    assert bounds.delay_crlb(pulse, 2.0) == bounds.delay_crlb(pulse.astype(complex), 2.0)
    assert bounds.joint_crlb(pulse, 2.0) == bounds.joint_crlb(pulse.astype(complex), 2.0)
