# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop's patience with scattered arrivals, and its power control."""

import dataclasses

import numpy as np
import pytest

from tests.loop.small_worlds import SETTINGS, tracking, world
from tests.loop.worlds import NumberClient

# --- Spread ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paths", [(0.0, 2.0, 5.0), (0.0, 1.0, 2.0, 4.0, 8.0)])
def test_echoes_that_move_do_not_throw_a_client_out(paths):
    rng = np.random.default_rng(5)
    it = world(NumberClient(0.0, scatter=lambda: rng.choice(paths)), NumberClient(0.0))
    it.run(500)
    assert it.states() == ["tracking"] * 2
    late = it.plans[50:]
    assert sum(plan.kind == "acquire" for plan in late) <= 10
    offsets = np.array(it.offsets)[100:, 0]
    # The best that can be done is the middle of what is heard; the correction must not chase the paths.
    spread = np.std(paths)
    assert np.nanstd(offsets) < 0.7 * spread
    assert np.nanmean(offsets) == pytest.approx(-np.mean(paths), abs=0.3 * spread)
    assert any("scatters" in change.reason for change in it.loop.changes)
    assert it.loop.clients[0].scatter_samples == pytest.approx(spread, rel=0.5)  # known in steps of two


def test_scatter_beyond_the_limit_is_not_borne_and_does_not_stop_the_others():
    rng = np.random.default_rng(5)
    it = world(NumberClient(0.0, scatter=lambda: rng.uniform(-400, 400)), NumberClient(0.0))
    it.run(600)
    kinds = [plan.kind for plan in it.plans[300:]]
    assert kinds.count("payload") > 200
    alone = sum(plan.orders[0].mode == "payload" for plan in it.plans)
    assert alone < 60


def test_a_clock_that_walks_more_than_assumed_is_followed():
    rng = np.random.default_rng(6)
    it = tracking(NumberClient(), NumberClient())
    step = 0.3  # samples a round, 27 times the assumed 0.1 ppm/sqrt(s) * 0.4 samples/ppm * sqrt(0.04 s) = 0.008
    for _ in range(300):
        it.clients[0].needed += step * rng.standard_normal()
        it.round()
    assert it.states() == ["tracking"] * 2
    offsets = np.array(it.offsets)[-200:, 0]
    # What nobody can know is the step itself.
    assert np.sqrt(np.nanmean(offsets**2)) < 1.25 * step


# --- Power ----------------------------------------------------------------------------------------------------------


def test_power_goes_to_the_weakest():
    it = world(NumberClient(power_db=10.0), NumberClient(power_db=-5.0), NumberClient(power_db=3.0))
    it.run(40)
    gains = [view.gain_db for view in it.loop.clients]
    assert gains == pytest.approx([-15.0, 0.0, -8.0], abs=0.6)


def test_power_goes_to_the_target_and_no_further_than_allowed():
    it = world(
        NumberClient(power_db=10.0),
        NumberClient(power_db=-5.0),
        settings=dataclasses.replace(SETTINGS, target_power_db=2.0),
    )
    it.run(40)
    assert [view.gain_db for view in it.loop.clients] == pytest.approx([-8.0, 0.0], abs=0.6)


def test_fading_is_not_followed():
    rng = np.random.default_rng(7)
    it = world(NumberClient(), NumberClient())
    gains = []
    for _ in range(400):
        for client in it.clients:
            client.power_db = 10 * np.log10(rng.exponential())
        it.round()
        gains.append([view.gain_db for view in it.loop.clients])
    # The mean of 16 exponential powers has a standard deviation of 1.1 dB, a single one of 5.6 dB.
    assert np.std(np.ptp(gains[50:], axis=1)) < 2.0
    assert max(np.abs(np.diff(gains, axis=0)).max(axis=0)) <= SETTINGS.gain_step_db + 1e-9


def test_without_power_control_gains_stay():
    it = world(NumberClient(power_db=10.0), NumberClient(), settings=dataclasses.replace(SETTINGS, power_control=False))
    it.run(10)
    assert [view.gain_db for view in it.loop.clients] == [0.0, 0.0]
