# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients' clocks: spread evenly, walking, and the same in round t whatever was asked before."""

import numpy as np
import pytest

from fl_app.air import AirSettings
from fl_app.air.simulation.clocks import RoundClocks


def test_clocks_are_spread_evenly():
    assert RoundClocks(AirSettings(clock_ppm=20.0), 2, 0).ppm(0).tolist() == [-20, 20]
    assert RoundClocks(AirSettings(clock_ppm=20.0), 5, 0).ppm(0).tolist() == [-20, -10, 0, 10, 20]
    assert abs(RoundClocks(AirSettings(clock_ppm=20.0), 1, 0).ppm(0)[0]) == 20


def test_without_a_walk_the_rate_stays():
    clocks = RoundClocks(AirSettings(clock_ppm=20.0, clock_walk_ppm=0.0), 3, 0)
    assert clocks.ppm(10**9).tolist() == [-20, 0, 20]


def test_the_walk_has_independent_steps_of_the_set_size():
    clocks = RoundClocks(AirSettings(clock_ppm=0.0, clock_walk_ppm=0.1), 50, 3)
    path = np.array([clocks.ppm(t) for t in range(101)])
    steps = np.diff(path, axis=0)
    assert steps.std() == pytest.approx(0.1, rel=3 / np.sqrt(2 * steps.size))
    assert path[-1].std() == pytest.approx(1.0, rel=3 / np.sqrt(2 * 50))


def test_the_rate_in_a_round_does_not_depend_on_what_was_asked_before():
    settings = AirSettings(clock_walk_ppm=1.0)
    forwards, backwards = RoundClocks(settings, 3, 1), RoundClocks(settings, 3, 1)
    expected = [forwards.ppm(t).tolist() for t in range(20)]
    assert [backwards.ppm(t).tolist() for t in range(19, -1, -1)] == expected[::-1]
