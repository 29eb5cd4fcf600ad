# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of rates against what a Pluto's driver prints, and against the chip's limits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.radio.virtual.path_rates import path_rates


@pytest.mark.parametrize(
    ("rate", "text"),
    [  # read from real devices
        (1_920_000, "BBPLL:983040000 DAC:61440000 T2:30720000 T1:15360000 TF:7680000 TXSAMP:1920000"),
        (560_000, "BBPLL:860160000 DAC:26880000 T2:8960000 T1:4480000 TF:2240000 TXSAMP:560000"),
    ],
)
def test_as_a_pluto_prints_it(rate, text):
    assert path_rates(rate, 4).text("DAC", "T", "TXSAMP") == text


@given(rate=st.integers(2_083_333, 61_440_000), factor=st.sampled_from([1, 2, 4]))
def test_within_the_chips_limits(rate, factor):
    rates = path_rates(rate, factor)
    assert rates.fir_hz == rate * factor
    assert 715e6 <= rates.clock_hz <= 1430e6
    steps = (rates.clock_hz, rates.converter_hz, rates.third_hz, rates.second_hz, rates.fir_hz, rates.sample_hz)
    assert all(fast % slow == 0 and fast >= slow for fast, slow in itertools.pairwise(steps))
