# SPDX-License-Identifier: GPL-3.0-or-later
"""The ergodic rate against closed forms, against SciPy's Rice distribution and against drawn gains."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp.channel.capacity import ergodic_rate
from oac_blocks.dsp.channel.fading import gains


@given(st.floats(-25.0, 200.0))
@settings(max_examples=60, deadline=None)
def test_rayleigh_is_the_exponential_integral(snr_db):
    snr = 10 ** (snr_db / 10)
    closed = math.exp(1 / snr) * scipy.special.exp1(1 / snr) / math.log(2)
    assert ergodic_rate(snr) == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize("snr_db", [-100.0, -60.0, -40.0])
def test_at_low_snr_every_channel_has_the_rate_of_its_mean_power(snr_db):
    snr = 10 ** (snr_db / 10)
    for fading in ("none", "rayleigh", "rician"):
        assert ergodic_rate(snr, fading) == pytest.approx(snr / math.log(2), rel=2 * snr)


@given(st.floats(-100.0, 200.0))
@settings(max_examples=30, deadline=None)
def test_rician_lies_between_rayleigh_and_no_fading(snr_db):
    snr = 10 ** (snr_db / 10)
    assert ergodic_rate(snr, "rician", -100.0) == pytest.approx(ergodic_rate(snr), rel=1e-8)
    assert ergodic_rate(snr, "rician", 100.0) == pytest.approx(ergodic_rate(snr, "none"), rel=1e-8)
    rates = [ergodic_rate(snr), *(ergodic_rate(snr, "rician", k_db) for k_db in (0.0, 10.0, 20.0))]
    assert rates == sorted(rates)
    assert rates[-1] <= ergodic_rate(snr, "none") * (1 + 1e-9)


@pytest.mark.parametrize("snr_db", [-5.0, 10.0, 25.0])
@pytest.mark.parametrize("k_db", [-3.0, 5.0, 12.0])
def test_rician_is_the_mean_over_scipys_rice_distribution(snr_db, k_db):
    snr, k = 10 ** (snr_db / 10), 10 ** (k_db / 10)
    magnitude = scipy.stats.rice(math.sqrt(2 * k), scale=math.sqrt(0.5 / (k + 1)))
    expected = magnitude.expect(lambda x: np.log2(1 + snr * x**2))
    assert ergodic_rate(snr, "rician", k_db) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("fading", ["none", "rayleigh", "rician"])
def test_rate_is_the_mean_over_the_gains_that_the_airs_draw(fading):
    drawn = np.log2(1 + 30 * np.abs(gains((200_000,), fading, np.random.default_rng(1), 6.0).astype(complex)) ** 2)
    error = drawn.std() / math.sqrt(drawn.size)
    assert error < 0.005
    assert ergodic_rate(30.0, fading, 6.0) == pytest.approx(drawn.mean(), abs=4 * error + 1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "snr must be"),
        ((math.nan,), "snr must be"),
        ((1.0, "nakagami"), "fading must be one of none, rayleigh"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ergodic_rate(*arguments)
