# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong, and that the loop gets over it: real estimators, virtual radios, faults by schedule."""

import dataclasses

import numpy as np
import pytest

from calibration.faults import FAULTS, Fault
from calibration.simulation import loop_for, play
from calibration.virtual import VirtualRadios, VirtualSettings
from oac_blocks.dsp.waveform.round_layout import RoundLayout

SETTINGS = VirtualSettings(RoundLayout(clients=3, groups=2, answer_samples=400_000), snr_db=15.0)
AT = 12  # the round of the fault
NEAR = 0.5  # samples: where payload must be


class Run:
    """All rounds of a run. Whatever happens, payload comes from tracking clients alone."""

    def __init__(self, *faults, rounds=40, settings=SETTINGS):
        self.loop = loop_for(settings)
        self.radios = VirtualRadios(settings, faults)
        self.plans, self.states, self.residuals = [], [], []
        states = [view.state for view in self.loop.clients]
        for played in play(self.loop, self.radios, rounds):
            for order in played.plan.orders:
                assert order.mode != "payload" or states[order.client] == "tracking"
                assert order.mode != "acquire" or states[order.client] != "tracking"
            states = [view.state for view in played.views]
            self.plans.append(played.plan)
            self.states.append(states)
            payload = played.plan.kind == "payload"
            self.residuals.append(played.result.residual_samples if payload else np.full(len(states), np.nan))

    def reasons(self, client):
        return " / ".join(c.reason for c in self.loop.changes if c.client == client and c.round >= AT)

    def worst(self, client, first=0):
        return float(np.nanmax(np.abs(np.array(self.residuals)[first:, client])))

    def acquisitions(self):
        return sum(plan.kind == "acquire" for plan in self.plans[AT:])

    def assert_recovered(self, within):
        """All tracking and near ``within`` rounds after the fault, and at the end."""
        for states in (self.states[AT + within], self.states[-1]):
            assert set(states) == {"tracking"}
        for client in range(3):
            assert self.worst(client, AT + within) < NEAR


def test_without_a_fault():
    run = Run()
    run.assert_recovered(0)
    assert run.acquisitions() == 0
    assert [plan.kind for plan in run.plans[:3]] == ["acquire", "acquire", "payload"]


def test_a_missed_trigger_costs_that_round_alone():
    run = Run(Fault(AT, 1, "miss"))
    run.assert_recovered(1)
    assert run.acquisitions() == 0


def test_many_missed_triggers_are_noticed():
    run = Run(Fault(AT, 1, "miss", rounds=6))
    assert "did not answer, 5 rounds in a row" in run.reasons(1)
    run.assert_recovered(10)


@pytest.mark.parametrize("off", [5000.0, -300.0, 30.0])
def test_a_false_trigger_costs_that_round_alone(off):
    run = Run(Fault(AT, 1, "false_trigger", off))
    run.assert_recovered(2)
    assert abs(run.residuals[AT][1]) > 20  # it was off, and the loop did not follow


def test_a_client_that_vanishes_and_returns():
    run = Run(Fault(AT, 1, "vanish", rounds=30), rounds=AT + 30 + 70)
    others = [plan.orders[0].mode for plan in run.plans[AT + 5 : AT + 30]]
    assert others.count("payload") >= 18
    assert run.states[AT + 20][1] != "tracking"
    assert set(run.states[-1]) == {"tracking"}
    assert run.worst(1, AT + 30) < NEAR


@pytest.mark.parametrize("jump", [1.0, -3.0, 17.0, 64.0, -300.0, 1500.0])
def test_a_jump_that_nobody_notices(jump):
    run = Run(Fault(AT, 1, "jump", jump))
    run.assert_recovered(10)
    assert run.reasons(1)  # and it says why
    assert run.worst(0) < NEAR
    assert run.worst(2) < NEAR


def test_a_jump_is_called_one():
    run = Run(Fault(AT, 1, "jump", -3.0))
    assert "jumped by +3.0 samples" in run.reasons(1)


@pytest.mark.parametrize("slip", [1.0, 700.0])
def test_a_gap_that_the_client_notices(slip):
    run = Run(Fault(AT, 1, "gap", slip))
    assert "stream gap" in run.reasons(1)
    assert run.plans[AT + 1].orders[1].epoch == 1
    run.assert_recovered(4)
    assert run.worst(1) < NEAR  # not one payload out of time


def test_gap_upon_gap():
    run = Run(*(Fault(AT + n, 1, "gap", 100.0) for n in range(6)), rounds=80)
    assert set(run.states[-1]) == {"tracking"}
    assert run.worst(1) < NEAR


@pytest.mark.parametrize("ppm", [0.5, -5.0, 30.0])
def test_a_clock_that_steps(ppm):
    """30 ppm over 400,000 samples are 12 samples, within the 16 that the loop takes for echoes."""
    run = Run(Fault(AT, 1, "clock_step", ppm))
    run.assert_recovered(8)


def test_an_interferer():
    """20 dB above a client for ten rounds: nobody is heard, so nobody sends payload, and then all are back."""
    run = Run(Fault(AT, 0, "interferer", 20.0, rounds=10), rounds=AT + 10 + 40)
    assert "tracking" not in run.states[AT + 8]
    assert set(run.states[-1]) == {"tracking"}
    assert max(run.worst(client) for client in range(3)) < NEAR


def test_a_short_interferer_costs_nothing():
    run = Run(Fault(AT, 0, "interferer", 20.0, rounds=2))
    run.assert_recovered(2)
    assert run.acquisitions() == 0


def test_echoes_whose_strongest_path_moves():
    """The client stays, or is back soon; the others do not suffer; afterwards it is close again."""
    run = Run(Fault(AT, 1, "echoes", 2.0, rounds=100), rounds=AT + 100 + 60)
    states = [states[1] for states in run.states[AT : AT + 100]]
    assert states.count("tracking") >= 80
    assert "scatters" in run.reasons(1)
    assert run.acquisitions() <= 20
    # Inside the prefix, with some room: a third of 64 samples early, less the echoes late.
    assert run.worst(1) < 16
    assert run.worst(0) < NEAR
    assert run.worst(1, AT + 130) < NEAR


def test_streams_that_start_more_than_a_slot_apart_are_found():
    loop, radios = loop_for(SETTINGS), VirtualRadios(SETTINGS)
    radios.stream_offset_samples[1] = 30_000.0
    states = [[view.state for view in played.views] for played in play(loop, radios, 200)]
    assert states[2][0] == "tracking"
    assert set(states[-1]) == {"tracking"}


def test_everything_at_once():
    rng = np.random.default_rng(8)
    kinds = [kind for kind in FAULTS if kind != "interferer"]
    faults = [
        Fault(int(rng.integers(5, 120)), int(rng.integers(3)), kinds[n % len(kinds)], float(rng.uniform(-8, 8)) ** 2, 3)
        for n in range(28)
    ]
    faults = [
        dataclasses.replace(f, value=min(f.value, 3.0)) if f.kind in ("echoes", "clock_step") else f for f in faults
    ]
    run = Run(*faults, rounds=200)
    assert set(run.states[-1]) == {"tracking"}
    assert max(run.worst(client, 180) for client in range(3)) < NEAR
