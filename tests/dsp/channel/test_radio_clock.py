# SPDX-License-Identifier: GPL-3.0-or-later
"""A radio's clock: up and down are each other's inverse, whatever the rate does, and slip alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp.channel.radio_clock import DownPath, RadioClock, UpPath
from oac_blocks.dsp.channel.resampling import HOP

RATE = 20e6


def clock(ppm, walk_ppm=0.0, max_drift_samples=16_384, seed=1):
    return RadioClock(ppm, walk_ppm, RATE, max_drift_samples, np.random.SeedSequence(seed))


def steps(path, blocks):
    begins, rates = np.array([path.step() for _ in range(blocks)]).T
    return begins, rates


def test_a_constant_clock_in_closed_form():
    blocks, p = 1000, 37e-6
    n = HOP * np.arange(blocks)
    begins, rates = steps(UpPath(clock(37.0), 250.0), blocks)
    np.testing.assert_allclose(n - 250 + begins, (n - 250) * (1 + p), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rates, p, rtol=1e-12)
    begins, rates = steps(DownPath(clock(37.0)), blocks)
    np.testing.assert_allclose(n + begins, n / (1 + p), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rates, 1 / (1 + p) - 1, rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    ppm=st.floats(-900, 900),
    walk_ppm=st.sampled_from([0.0, 0.3, 30.0]),
    max_drift=st.sampled_from([16, 100, 3000]),
    seed=st.integers(0, 99),
)
def test_down_is_the_inverse_of_up(ppm, walk_ppm, max_drift, seed):
    """Go up from where down came to: the client's count is the same again, but near a slip, when one has jumped."""
    blocks = 400
    leads, rates = steps(UpPath(clock(ppm, walk_ppm, max_drift, seed), 0.0), blocks + 10)
    down = DownPath(clock(ppm, walk_ppm, max_drift, seed))
    lags, slopes = steps(down, blocks)
    assert np.abs(lags).max() <= (max_drift + 2) * 1.001
    assert np.abs(leads).max() <= max_drift
    n = HOP * np.arange(blocks)
    t = n + lags
    k = np.clip(t // HOP, 0, len(leads) - 1).astype(int)
    back = t + leads[k] + rates[k] * (t - k * HOP)
    ends = lags + slopes * HOP
    slipped_down = n[1:][np.abs(ends[:-1] - lags[1:]) > 1e-6]
    slipped_up = HOP * np.flatnonzero(np.abs(leads[:-1] + rates[:-1] * HOP - leads[1:]) > 1e-6) + HOP
    near = np.zeros(blocks, bool)
    for slip in (*slipped_down, *slipped_up):
        near |= np.abs(n - slip) <= 2 * max_drift + 2 * HOP
    # Rounding of counts near 1e6, and what changes of the rate leave, which all happen at a border of the clock's own.
    tolerance = 1e-8 + HOP * np.abs(np.diff(rates)).max()
    assert np.abs(back - n)[~near].max(initial=0) < tolerance
    # Near a slip they differ by whole slips, and by the drift over one.
    jumps = (back - n) / max_drift
    assert np.abs(jumps - np.rint(jumps)).max() < 0.15 + tolerance


@pytest.mark.parametrize("ppm", [700.0, -700.0])
def test_both_slip_by_the_largest_drift_and_equally_often(ppm):
    largest, blocks = 50, 1000
    up, down = clock(ppm, max_drift_samples=largest), clock(ppm, max_drift_samples=largest)
    leads, rates = steps(UpPath(up, 0.0), blocks)
    lags, slopes = steps(DownPath(down), blocks)
    expected = abs(ppm) * 1e-6 * HOP * blocks / largest
    assert up.slips == pytest.approx(expected, abs=1)
    assert down.slips == pytest.approx(up.slips, abs=1)
    jumps = leads[1:] - leads[:-1] - rates[:-1] * HOP
    np.testing.assert_allclose(jumps[np.abs(jumps) > 1e-6], -np.sign(ppm) * largest)
    # Down, so many samples of the client's are missing or come again: in the server's they are less by the rate.
    jumps = lags[1:] - lags[:-1] - slopes[:-1] * HOP
    np.testing.assert_allclose(jumps[np.abs(jumps) > 1e-6], np.sign(ppm) * largest / (1 + 1e-6 * ppm))


def test_the_walk_has_its_standard_deviation():
    blocks, walk, clocks = 30, 5.0, 1000
    ends = []
    for seed in range(clocks):
        one = clock(0.0, walk, seed=seed)
        for _ in range(blocks):
            one.step()
        ends.append(one.ppm)
    assert np.std(ends) == pytest.approx(walk * np.sqrt(blocks * HOP / RATE), rel=5 / np.sqrt(2 * clocks))


def test_a_walk_ends_at_the_largest_rate():
    one = clock(999.9, 1000.0)
    rates = [one.step()[1] for _ in range(2000)]
    assert max(rates) == 1e-3
    assert min(rates) >= -1e-3
