# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of rates against what a Pluto's driver prints, and against the chip's limits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.radio.virtual.iiod.path_rates import path_rates


@pytest.mark.parametrize(
    ("rate", "text"),
    [  # read from real devices
        (1_920_000, "BBPLL:983040000 DAC:61440000 T2:30720000 T1:15360000 TF:7680000 TXSAMP:1920000"),
        (560_000, "BBPLL:860160000 DAC:26880000 T2:8960000 T1:4480000 TF:2240000 TXSAMP:560000"),
    ],
)
def test_as_a_pluto_prints_it(rate, text):
    assert path_rates(rate, 4).tx.text("DAC", "T", "TXSAMP") == text


def test_the_receivers_converter_runs_as_a_pluto_prints_it_after_its_start():
    text = "BBPLL:983040000 ADC:245760000 R2:122880000 R1:61440000 RF:30720000 RXSAMP:30720000"
    assert path_rates(30_720_000, 1).rx.text("ADC", "R", "RXSAMP") == text


@pytest.mark.parametrize(
    ("rate", "factor", "taps"), [(20_000_000, 4, 128), (40_000_000, 2, 128), (53_300_000, 2, 96), (61_440_000, 2, 64)]
)
def test_the_fir_has_time_for_as_many_taps_as_pyadi_iio_loads_at_this_rate(rate, factor, taps):
    assert path_rates(rate, factor).most_taps == taps


def test_the_other_governor_runs_the_converters_faster():
    nominal, highest = (path_rates(4_000_000, 1, highest_osr=osr).rx.converter_hz for osr in (False, True))
    assert (nominal, highest) == (8 * 4_000_000, 12 * 4_000_000)


@given(rate=st.integers(2_083_333, 61_440_000), factor=st.sampled_from([1, 2, 4]))
def test_within_the_chips_limits(rate, factor):
    both = path_rates(rate, factor)
    assert 24.99e6 < both.rx.converter_hz <= 640e6
    assert both.tx.converter_hz <= 320e6
    for rates in (both.rx, both.tx):
        assert rates.fir_hz == rate * factor
        assert 715e6 <= rates.clock_hz <= 1430e6
        steps = (rates.clock_hz, rates.converter_hz, rates.third_hz, rates.second_hz, rates.fir_hz, rates.sample_hz)
        assert all(fast % slow == 0 and fast >= slow for fast, slow in itertools.pairwise(steps))
