# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise of streams: against the normal law, and however it is cut."""

import numpy as np
import pytest
import scipy.stats

from oac_blocks.dsp.channel.front_end import FrontEnd
from oac_blocks.dsp.channel.multiple_access import Receiver
from oac_blocks.dsp.channel.noise import quantise
from oac_blocks.dsp.channel.resampling import HOP

SAMPLES = 300 * HOP


def front_end(seed=1):
    return FrontEnd(np.random.SeedSequence(seed))


def noise(receiver, samples=SAMPLES, seed=1):
    x = np.zeros(samples, np.complex64)
    front_end(seed).receive(x, receiver)
    return x


@pytest.mark.parametrize("snr_db", [-30.0, 0.0, 20.0])
def test_noise_is_circular_and_normal(snr_db):
    x = noise(Receiver(snr_db)).astype(np.complex128) * 10 ** (snr_db / 20)
    # 1e-6: of a million seeds one would fail; the seed is fixed.
    assert scipy.stats.kstest(x.real * np.sqrt(2), "norm").pvalue > 1e-6
    assert scipy.stats.kstest(x.imag * np.sqrt(2), "norm").pvalue > 1e-6
    assert scipy.stats.kstest(np.abs(x) ** 2, "expon").pvalue > 1e-6
    assert scipy.stats.kstest(np.angle(x) / np.pi, "uniform", (-1, 2)).pvalue > 1e-6
    # Means of products have a standard deviation of 1 / sqrt(n).
    bound = 5 / np.sqrt(len(x))
    assert abs(np.mean(np.abs(x) ** 2) - 1) < bound
    assert abs(np.mean(x)) < bound
    assert abs(np.mean(x**2)) < np.sqrt(2) * bound
    for lag in (1, 2, HOP, 8 * HOP):
        assert abs(np.mean(x[lag:] * x[:-lag].conj())) < bound
        assert abs(np.mean((np.abs(x[lag:]) ** 2 - 1) * (np.abs(x[:-lag]) ** 2 - 1))) < bound


def test_the_tails_are_there():
    """|x|^2 of unit noise is exponential: above 10 are n e^-10 of n."""
    x = noise(Receiver(0.0), 2000 * HOP)
    expected = len(x) * np.exp(-10)
    assert np.count_nonzero(np.abs(x) ** 2 > 10) == pytest.approx(expected, abs=5 * np.sqrt(expected))


@pytest.mark.parametrize("receiver", [Receiver(3.0), Receiver(3.0, 1.6), Receiver(3.0, 2.0, 5, 2.0)])
def test_how_the_stream_is_cut_changes_nothing(receiver):
    whole = noise(receiver, 50 * HOP)
    pieces = np.zeros(50 * HOP, np.complex64)
    one = front_end()
    for part in np.split(pieces, HOP * np.array([1, 2, 10, 11, 37])):
        one.receive(part, receiver)
    np.testing.assert_array_equal(pieces, whole)


def test_noise_is_added_to_what_is_there_then_converted():
    x = np.linspace(-1, 1, 4 * HOP).astype(np.complex64)
    y = x.copy()
    front_end().receive(y, Receiver(10.0, adc_bits=6))
    expected = quantise(x + noise(Receiver(10.0), 4 * HOP), 6)
    np.testing.assert_allclose(y, expected, atol=1e-6)
    y = x.copy()
    front_end().receive(y, Receiver())
    np.testing.assert_array_equal(y, x)


def test_seeds_are_of_their_own():
    one, other = noise(Receiver(0.0)), noise(Receiver(0.0), seed=2)
    assert abs(np.mean(one * other.conj())) < 5 / np.sqrt(len(one))
