# SPDX-License-Identifier: GPL-3.0-or-later
"""The closed loop in the simulated air: with it clients are as good as in time, without it they are not."""

import numpy as np
import pytest

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate
from fl_app.air.simulation.arrivals import SimulatedArrivals
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


def test_the_loop_leaves_hundredths_of_a_sample():
    arrivals = SimulatedArrivals(settings("loop", snr_db=15.0, clock_walk_ppm=0.1), CLIENTS, 1)
    offsets = np.array([arrivals.offsets(t) for t in range(30)])
    assert np.isfinite(offsets).all()
    assert np.sqrt(np.mean(offsets[3:] ** 2)) < 0.05


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
