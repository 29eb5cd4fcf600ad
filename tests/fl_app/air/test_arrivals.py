# SPDX-License-Identifier: GPL-3.0-or-later
"""The closed loop in the simulated air: with it clients are as good as in time, without it they are not."""

import numpy as np
import pytest

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate
from fl_app.air.bursts import plan
from fl_app.air.simulation.arrivals import RoundWorld, SimulatedArrivals, payload_rounds
from fl_app.air.simulation.clocks import RoundClocks
from oac_blocks.dsp.channel.fading import PROFILES
from oac_blocks.loop.states import Plan
from tests.support.statistics import assert_mean
from tests.support.vote_theory import vote_rate_std

CLIENTS, VOTES, SNR_DB = 5, 1920, 10.0


def settings(calibration, **changes):
    given = {"profile": "eva", "snr_db": SNR_DB, "clock_ppm": 20.0, "timing_sigma_samples": 0.0}
    return AirSettings(calibration=calibration, **(given | changes))


def error_rates(air, rounds):
    rng = np.random.default_rng(5)
    rates, expected = [], []
    for t in range(rounds):
        votes = rng.choice(np.array([-1, 1], np.int8), (CLIENTS, VOTES))
        errors, compared = vote_error_rate(votes, air.uplink(votes, np.arange(CLIENTS), t).received)
        rates.append(errors / compared)
        expected.append(expected_vote_error_rate(votes, 10 ** (SNR_DB / 10)))
    return np.array(rates), np.array(expected)


def test_with_the_loop_votes_are_as_good_as_in_time_and_without_it_they_are_not():
    """Seed by seed the airs meet the same fading, so that rounds can be compared one by one."""
    rounds = 40
    in_time, expected = error_rates(make_air(settings("assumed"), CLIENTS, 3), rounds)
    loop, _ = error_rates(make_air(settings("loop"), CLIENTS, 3), rounds)
    # What the loop leaves of the offsets may change one vote in fifty.
    assert_mean(loop - in_time, 0.0, np.sqrt(0.02 / VOTES))
    assert_mean(loop - expected, 0.0, 1.2 * vote_rate_std(CLIENTS, VOTES, SNR_DB))
    off, _ = error_rates(make_air(settings("off"), CLIENTS, 3), 5)
    assert off.mean() > in_time.mean() + 0.1


@pytest.mark.parametrize("fading", ["none", "rayleigh"])
def test_the_loop_leaves_hundredths_of_a_sample_where_there_are_no_echoes(fading):
    arrivals = SimulatedArrivals(settings("loop", snr_db=15.0, profile="flat", fading=fading), CLIENTS, 1)
    offsets = np.array([arrivals.offsets(t) for t in range(30)])
    assert np.isfinite(offsets).all()
    assert np.sqrt(np.mean(offsets[3:] ** 2)) < 0.05


def test_fading_echoes_leave_samples():
    """The strongest path moves from round to round over the 50 samples of the profile, and the loop follows it."""
    arrivals = SimulatedArrivals(settings("loop", snr_db=15.0), CLIENTS, 1)
    offsets = np.array([arrivals.offsets(t) for t in range(30)])
    rms_spread = PROFILES["eva"].rms_delay_spread_seconds() * 20e6  # 7.1 samples
    assert 0.2 * rms_spread < np.std(offsets) < 2 * rms_spread


def test_the_loops_radios_have_the_clocks_and_the_fading_of_the_bursts():
    given = settings("loop", snr_db=30.0, profile="flat", clock_walk_ppm=1.0)
    air, clocks = make_air(given, CLIENTS, 3), RoundClocks(given, CLIENTS, 3)
    burst = plan(VOTES, given)[0]
    for t, played in zip(range(12), payload_rounds(given, CLIENTS, 3), strict=False):
        np.testing.assert_allclose(played.result.clock_ppm, clocks.ppm(t), atol=1e-4)
        paths = [path for _, path in air._paths(np.arange(CLIENTS), burst, (t, 0))]
        power_db = [20 * np.log10(np.abs(path.draw(1)[0][0])) for path in paths]
        heard = np.array(power_db) > -10  # above the noise of the measurement
        np.testing.assert_allclose(played.result.arrivals.power_db[heard], np.array(power_db)[heard], atol=0.5)


def test_the_loops_radios_have_the_echoes_of_the_bursts():
    given = settings("loop")
    air, world = make_air(given, CLIENTS, 3), RoundWorld(given, CLIENTS, 3)
    burst = plan(VOTES, given)[0]
    drawn = []
    for t, kind in ((0, "acquire"), (0, "payload"), (1, "payload"), (2, "acquire"), (2, "payload")):
        taps = world.taps(Plan(7, kind, ()))
        paths = [path for _, path in air._paths(np.arange(CLIENTS), burst, (t, 0))]
        same = [np.allclose(row, path.draw(1)[0], atol=1e-6) for row, path in zip(taps, paths, strict=True)]
        assert same == [kind == "payload"] * CLIENTS
        drawn.append(taps)
    assert not np.allclose(drawn[0], drawn[3])  # each try has echoes of its own


def test_without_it_radios_are_as_far_off_as_their_buffers_put_them():
    offsets = SimulatedArrivals(settings("off"), CLIENTS, 1).offsets(0)
    assert np.abs(offsets).max() > 64  # farther than the prefix reaches


def test_a_round_is_the_same_whatever_was_asked_before():
    forward, at_once = (SimulatedArrivals(settings("loop"), 2, 4) for _ in range(2))
    several = [forward.offsets(t) for t in range(6)]
    assert np.array_equal(at_once.offsets(5), several[5])
    assert np.array_equal(forward.offsets(2), several[2])


def test_too_many_clients_for_one_slot():
    with pytest.raises(ValueError, match="clients must be at most 64 for calibration = 'loop'"):
        make_air(settings("loop"), 65, 1).uplink(np.ones((1, 10), np.int8), np.array([0]), 0)


class SomeAreSilent:
    """Arrivals in time, of all clients but these."""

    def __init__(self, *silent):
        self.silent = list(silent)

    def offsets(self, t):
        offsets = np.zeros(4)
        offsets[self.silent] = np.nan
        return offsets


def test_votes_of_a_silent_client_do_not_count_as_heard():
    """Clients 1 and 2 are silent, and would have outvoted client 0."""
    air = make_air(settings("assumed", fading="none", profile="flat", snr_db=40.0), 4, 3)
    air.arrivals = SomeAreSilent(1, 2)
    votes = np.array([[1], [-1], [-1]], np.int8) * np.ones((3, VOTES), np.int8)
    uplink = air.uplink(votes, np.arange(3), 0)
    assert uplink.heard.tolist() == [0]
    assert vote_error_rate(votes[uplink.heard], uplink.received) == (0, VOTES)


def test_an_analog_mean_is_that_of_the_clients_heard():
    """With 1 of 4 silent a division by all participants would leave 0.75 of it."""
    exact = {"fading": "none", "profile": "flat", "snr_db": None, "adc_bits": None, "clock_ppm": 0.0}
    exact |= {"clock_walk_ppm": 0.0, "cfo_residual_hz": 0.0, "pilot_snr_db": None, "pilot_timing_sigma_samples": 0.0}
    air = make_air(settings("assumed", mode="analog", **exact), 4, 3)
    air.arrivals = SomeAreSilent(2)
    entries = np.random.default_rng(1).standard_normal((4, 500)).astype(np.float32)
    uplink = air.uplink(entries, np.arange(4), 0)
    assert uplink.heard.tolist() == [0, 1, 3]
    assert np.allclose(uplink.received, entries[uplink.heard].mean(axis=0), atol=1e-3)


def test_a_round_in_which_nobody_transmits_has_nobody_heard():
    air = make_air(settings("assumed"), 4, 3)
    air.arrivals = SomeAreSilent(0, 1)
    uplink = air.uplink(np.ones((2, 50), np.int8), np.arange(2), 0)
    assert uplink.heard.size == 0
    assert not uplink.received.any()
