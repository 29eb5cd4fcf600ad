# SPDX-License-Identifier: GPL-3.0-or-later
"""A crystal's own time against closed forms."""

import numpy as np
import pytest

from calibration.clocks import ClientClocks
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.clocks import RoundClocks
from oac_blocks.dsp.channel.crystal import STEP_SECONDS, Crystal, CrystalSettings, walk_path_ppm
from oac_blocks.dsp.channel.multiple_access import Link, clock_rates_ppm
from oac_blocks.dsp.channel.radio_clock import RadioClock
from oac_blocks.dsp.channel.resampling import HOP
from oac_blocks.dsp.checks import MAX_PPM


def crystal(seed=1, **settings):
    return Crystal(CrystalSettings(**settings), np.random.SeedSequence(seed))


def test_a_constant_rate_leads_by_that_share_of_the_time():
    times = np.array([0.0, 0.1234, 7.0, 100.0])
    assert crystal(ppm=20).lead(times) == pytest.approx(20e-6 * times, abs=1e-12)


def test_before_the_start_it_ran_true():
    assert np.all(crystal(ppm=20).lead(np.array([-3.0, -1e-3])) == 0)


def test_own_and_true_time_are_each_others_inverse():
    one = crystal(ppm=-40, walk_ppm=2, wobble_ppm=1)
    own = np.linspace(0, 20, 1001)
    true = one.true_seconds(own)
    assert true + one.lead(true) == pytest.approx(own, abs=1e-13)


def test_one_time_and_many_are_equal_to_the_bit():
    one = crystal(ppm=-40, walk_ppm=2, wobble_ppm=1)
    times = np.append(np.random.default_rng(1).uniform(-0.1, 20, 500), (-1.0, 0.0, 1.0, STEP_SECONDS))
    assert [one.lead_at(t) for t in times] == one.lead(times).tolist()
    assert [one.true_at(t) for t in times] == [float(one.true_seconds(np.array([t]))[0]) for t in times]


def test_a_wobble_is_the_integral_of_its_sine():
    one = crystal(wobble_ppm=1, wobble_seconds=20)
    times = np.linspace(0, 40, 400)
    integral = 1e-6 * 20 / (2 * np.pi) * (1 - np.cos(2 * np.pi * times / 20))
    assert one.lead(times) == pytest.approx(integral, abs=1e-6 * STEP_SECONDS)  # a step's rate is that of its beginning


def test_a_walk_does_not_depend_on_who_asks_when():
    times = np.arange(0, 3, 0.01)
    at_once = crystal(walk_ppm=1).lead(times)
    one = crystal(walk_ppm=1)
    assert np.array_equal(at_once, np.concatenate([one.lead(times[i : i + 1]) for i in range(len(times))]))


def test_a_walk_spreads_as_the_root_of_time():
    rates = [crystal(seed, walk_ppm=1).rate_ppm(4.0) for seed in range(300)]
    # 4 seconds: a standard deviation of 2, which 300 draws know to 1 / sqrt(600) = 4 %.
    assert np.std(rates) == pytest.approx(2.0, rel=5 / np.sqrt(2 * len(rates)))


def test_the_rate_may_step():
    one = crystal(ppm=5)
    one.add_ppm(10, 1.0)
    assert one.lead(np.array([1.0, 2.0])) == pytest.approx([5e-6, 20e-6], abs=1e-12)


def test_the_past_is_let_go_and_the_rest_stays():
    one = crystal(ppm=20, walk_ppm=1)
    before = one.lead(np.array([150.0]))
    one.lead(np.array([200.0]))
    assert np.array_equal(one.lead(np.array([150.0])), before)
    assert len(one._lead) < 1 << 18


def test_after_hours_own_and_true_time_still_agree():
    one = crystal(ppm=17)
    own = np.array([2000.0, 2000.001])
    true = one.true_seconds(own)
    assert true + one.lead(true) == pytest.approx(own, abs=1e-11)


CLOCKS, WALK_PPM = 400, 0.5


def burst_clocks():
    """The clocks of bursts, in steps of 1,024 samples; here there are 20 in a second."""
    links = [Link(clock_ppm=5.0, clock_walk_ppm=WALK_PPM)] * CLOCKS
    rates, ends = clock_rates_ppm(links, 20 * 1024, 20 * 1024, np.random.default_rng(1))
    return rates[:, 0], ends


def stream_clocks():
    """The clocks of streams, in steps of ``HOP`` samples; here there are 20 in a second."""
    clocks = [RadioClock(5.0, WALK_PPM, 20 * HOP, 1 << 20, np.random.SeedSequence(i)) for i in range(CLOCKS)]
    first = [1e6 * clock.step()[1] for clock in clocks]
    for _ in range(19):
        for clock in clocks:
            clock.step()
    return np.array(first), np.array([1e6 * clock.step()[1] for clock in clocks])


def training_clocks():
    """The clocks of a training run, in steps of one round, which counts as a second."""
    clocks = RoundClocks(AirSettings(clock_ppm=0.0, clock_walk_ppm=WALK_PPM), CLOCKS, 1)
    return 5.0 + clocks.ppm(0), 5.0 + clocks.ppm(1)


def calibration_clocks():
    clocks = ClientClocks([CrystalSettings(5.0, WALK_PPM)] * CLOCKS, 20e6, np.random.SeedSequence(1))
    return clocks.rates_ppm(0.0), clocks.rates_ppm(20e6)


@pytest.mark.parametrize("clocks", [burst_clocks, stream_clocks, training_clocks, calibration_clocks])
def test_all_clocks_follow_one_law(clocks):
    """They begin with their ppm; after a second the walk has its standard deviation, which 400 draws know to 3.5 %."""
    first, after_a_second = clocks()
    assert first == pytest.approx(5.0, abs=1e-6)
    assert np.std(after_a_second - 5.0) == pytest.approx(WALK_PPM, rel=4 / np.sqrt(2 * CLOCKS))
    assert np.mean(after_a_second) == pytest.approx(5.0, abs=4 * WALK_PPM / np.sqrt(CLOCKS))


def test_the_rate_stays_within_its_bound():
    path = walk_path_ppm(np.array([999.0, -999.0]), 500.0, 1.0, np.array([[3.0], [-3.0]]))
    assert path.tolist() == [[999.0, MAX_PPM], [-999.0, -MAX_PPM]]
    one = crystal(ppm=999)
    one.add_ppm(500, 0.0)
    assert one.rate_ppm(1.0) == pytest.approx(MAX_PPM)
