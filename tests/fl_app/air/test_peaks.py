# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.air.simulation.peaks import PeakMeter, high_point_db
from oac_blocks.dsp import Numerology, ofdm


@given(
    seed=st.integers(0, 1000),
    symbols=st.integers(1, 400),
    empty=st.integers(0, 3),
    active=st.sampled_from([4, 64, 192]),
)
def test_the_high_point_is_that_of_all_symbols_looked_at_closely(seed, symbols, empty, active):
    num = Numerology(active_subcarriers=active)
    rng = np.random.default_rng(seed)
    grid = np.exp(2j * np.pi * rng.random((symbols, active))).astype(np.complex64)
    # Some symbols with few tones, whose peaks are low, and some with a slope of phases, whose peaks are high.
    grid[: symbols // 3, ::2] = 0
    grid[: symbols // 50] = 1
    grid[symbols - min(empty, symbols - 1) :] = 0
    every = ofdm.pmepr_db(grid, num)
    assert high_point_db(grid, num) == pytest.approx(np.quantile(every[~np.isnan(every)], 0.99), abs=1e-4)


def test_each_grid_gives_its_share():
    num = Numerology()
    rng = np.random.default_rng(0)
    grids = np.exp(2j * np.pi * rng.random((3, 500, 192))).astype(np.complex64)
    meter = PeakMeter(num, 3)
    for grid in grids:
        meter.look_at(grid)
    chosen = grids[:, np.arange(341) * 500 // 341].reshape(-1, 192)
    assert meter.db() == pytest.approx(np.quantile(ofdm.pmepr_db(chosen, num), 0.99), abs=1e-4)
