# SPDX-License-Identifier: GPL-3.0-or-later
"""A payload of any length is cut into bursts that hold it all and keep their clocks inside the prefix."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.air import AirSettings
from fl_app.air.bursts import air_time, early_samples, longest_burst_symbols, plan


@given(
    k=st.integers(1, 2_000_000),
    mode=st.sampled_from(["analog", "onebit"]),
    repeats=st.integers(1, 8),
    groups=st.integers(1, 8),
    limit=st.integers(9, 5000),
)
def test_bursts_hold_every_entry_once_and_respect_the_limit(k, mode, repeats, groups, limit):
    repeats = 1 if mode == "analog" else repeats
    settings = AirSettings(mode=mode, repeats=repeats, groups=groups, max_burst_symbols=limit)
    bursts = plan(k, settings)
    assert [burst.first for burst in bursts] == [0, *(burst.stop for burst in bursts[:-1])]
    assert bursts[-1].stop == k
    assert all(burst.layout.symbols <= limit for burst in bursts)
    per_symbol = 384 if mode == "analog" else 96
    assert all(burst.layout.payload_symbols == math.ceil(len(burst) * repeats / per_symbol) for burst in bursts)
    symbols, seconds = air_time(bursts)
    assert symbols == sum(burst.layout.symbols for burst in bursts)
    assert seconds == pytest.approx(symbols * 320 / 20e6)


def test_the_prototypes_frame():
    # k = 20 % of 109,402 in FSK-MV: 228 symbols and 4 sync symbols.
    (burst,) = plan(21_880, AirSettings())
    assert burst.layout.payload_symbols == 228
    assert air_time([burst]) == (232, pytest.approx(232 * 16e-6))


@pytest.mark.parametrize("ppm", [5.0, 20.0, 100.0, 1000.0])
def test_half_the_drift_and_four_sigma_of_jitter_stay_before_the_window(ppm):
    settings = AirSettings(clock_ppm=ppm, max_burst_symbols=100_000)
    symbols = longest_burst_symbols(settings)

    def reach(n):
        return 0.5 * n * 320 * ppm * 1e-6 + 4 * 0.5

    assert reach(symbols) <= early_samples(settings) < reach(symbols + 1)


def test_the_default_burst_is_not_cut_by_20_ppm():
    assert longest_burst_symbols(AirSettings(clock_ppm=20.0)) == 4096


@pytest.mark.parametrize("cfo_hz", [1.0, 10.0, 100.0])
def test_analog_bursts_end_before_the_phase_has_turned_by_half_a_radian(cfo_hz):
    settings = AirSettings(mode="analog", cfo_residual_hz=cfo_hz, clock_ppm=0.0, max_burst_symbols=10**6)
    symbols = longest_burst_symbols(settings)
    assert 2 * math.pi * cfo_hz * symbols * 16e-6 <= 0.5 < 2 * math.pi * cfo_hz * (symbols + 1) * 16e-6
    assert longest_burst_symbols(AirSettings(cfo_residual_hz=cfo_hz)) == 4096  # votes do not mind


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_k_must_be_a_positive_integer(k):
    with pytest.raises(ValueError, match="k must be an integer >= 1"):
        plan(k, AirSettings())
