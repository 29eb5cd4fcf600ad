# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop's decisions, on clients that are numbers alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.loop.closed_loop import Answer, Guess, Loop, LoopSettings
from tests.loop.small_worlds import SETTINGS, arrivals, last_reason, tracking, world
from tests.loop.worlds import INTERVAL, SIGMA, NumberClient

# --- Up -------------------------------------------------------------------------------------------------------------


def test_two_rounds_of_acquisition_then_payload():
    it = world()
    assert it.states() == ["uncalibrated"] * 2
    kinds = [plan.kind for plan in it.run(4)]
    assert kinds == ["acquire", "acquire", "payload", "payload"]
    assert it.states() == ["tracking"] * 2
    seen = [(c.before, c.after) for c in it.loop.changes if c.client == 0]
    assert seen == [("uncalibrated", "acquiring"), ("acquiring", "fine"), ("fine", "tracking")]
    assert all(change.reason for change in it.loop.changes)
    assert np.nanmax(np.abs(it.offsets[2:])) < 5 * SIGMA


def test_orders_of_a_round():
    it = world(NumberClient(), NumberClient(answers=False))
    it.run(4)
    # Client 1 was asked in rounds 0 and 1, then two rounds later.
    assert [plan.kind for plan in it.plans] == ["acquire", "acquire", "payload", "acquire"]
    assert [order.mode for order in it.plans[2].orders] == ["payload", "silent"]
    assert [order.mode for order in it.plans[3].orders] == ["silent", "acquire"]


def test_a_plan_asked_twice_is_the_same():
    it = world()
    for _ in range(5):
        assert it.loop.plan() == it.loop.plan()
        it.round()


def test_corrections_are_absolute_and_their_order_is_that_of_the_contract():
    """offset = where it was heard less where it was wanted; a client that is late by 7 needs 7 samples less."""
    loop = Loop(1, SETTINGS)
    order = loop.plan().orders[0]
    loop.answered(Answer(0, 0, 0, "acquire", order.correction_samples, 0.0, 0.0, 40.0))
    loop.measured(arrivals(0, "acquire", 1, 7.0))
    assert loop.plan().orders[0].correction_samples == pytest.approx(-7.0)


def test_a_client_may_have_used_another_correction_than_the_last_order_said():
    loop = Loop(1, SETTINGS)
    loop.plan()
    loop.answered(Answer(0, 0, 0, "acquire", -50.0, 0.0, 0.0, 40.0))
    loop.measured(arrivals(0, "acquire", 1, 7.0))
    assert loop.plan().orders[0].correction_samples == pytest.approx(-57.0)


def test_a_guess_is_where_the_search_begins_and_nothing_more():
    it = world(NumberClient(5000.0), guesses={0: Guess(4990.0, -6.0)})
    order = it.loop.plan().orders[0]
    assert (order.mode, order.correction_samples, order.gain_db) == ("acquire", 4990.0, -6.0)
    assert [plan.kind for plan in it.run(3)] == ["acquire", "acquire", "payload"]


def test_a_wrong_guess_is_given_up_and_the_search_goes_further_and_further():
    it = world(NumberClient(0.0, heard=False), guesses={0: Guess(1e6)})
    used = [plan.orders[0].correction_samples for plan in it.run(9)]
    step = SETTINGS.sweep_step_samples
    assert used == [1e6, 1e6, 0.0, 0.0, 1e6 - step, 1e6, 1e6 + step, 1e6, 1e6 - 2 * step]


def test_a_search_goes_on_where_a_client_would_be_too_late():
    """Corrections below -10,000 leave no time to find the trigger; it is heard within half a slot of 12,000."""
    slot = 4 / 3 * SETTINGS.sweep_step_samples
    client = NumberClient(12_000.0, earliest=-10_000.0, audible=slot / 2)
    it = world(client, NumberClient(), guesses={0: Guess(-14_000.0)})
    # Four places near and then four steps away on either side, every other time from where it began, 4 rounds apart.
    it.run((4 + 2 * 8 + 1) * 4)
    assert it.states() == ["tracking"] * 2
    assert any("could not answer in time" in change.reason for change in it.loop.changes)


def test_who_says_that_it_could_not_answer_is_believed_for_its_order_alone():
    loop = Loop(1, SETTINGS, {0: Guess(5.0)})
    used = []
    for round_, (of_round, epoch, correction) in enumerate([(0, 0, 5.0), (1, 0, 4.0), (1, 0, 5.0), (3, 1, 5.0)]):
        used.append(loop.plan().orders[0].correction_samples)
        loop.abstained(0, of_round, epoch, correction)
        loop.measured(arrivals(round_, "acquire", 1))
    # Twice at each place: only the first of these words counts, so the second try is still open.
    assert used == [5.0] * 4
    assert loop.plan().orders[0].correction_samples == 5.0
    loop.abstained(0, 4, 0, 5.0)
    loop.measured(arrivals(4, "acquire", 1))
    assert loop.plan().orders[0].correction_samples == 0.0


def test_a_client_that_says_nothing_is_searched_where_it_was():
    it = world(NumberClient(0.0, answers=False), guesses={0: Guess(1e6)})
    assert {plan.orders[0].correction_samples for plan in it.run(8)} == {1e6}


@pytest.mark.parametrize("slot", [0.0, 100_000.0, 8e6])
def test_where_in_the_round_it_was_measured_does_not_matter(slot):
    """A slot of 100,000 samples at 20 ppm is two samples off, one of 8e6 on a slow radio 160."""
    it = world(NumberClient(100.0, ppm=20.0, slot=slot), NumberClient(-50.0, ppm=-13.0, slot=slot))
    assert [plan.kind for plan in it.run(30)] == ["acquire"] * 2 + ["payload"] * 28
    # Two triggers of 40 dB give the rate to 1e-4 samples in the interval of 800,000.
    assert np.nanmax(np.abs(it.offsets[2:])) < 6 * SIGMA + 2e-4 * slot / INTERVAL
    it.clients[0].needed += 200.0
    it.run(10)
    kinds = [plan.kind for plan in it.plans[30:]]
    assert kinds == ["payload", "payload", "acquire"] + ["payload"] * 7
    assert np.nanmax(np.abs(it.offsets[33:])) < 6 * SIGMA


def test_payload_may_need_another_correction_than_the_sequence():
    """By an echo, say: payload is followed once it was heard, after a jump as well."""
    it = world(NumberClient(100.0, bias=3.0), NumberClient(-50.0, bias=-4.0))
    assert [plan.kind for plan in it.run(30)][2:] == ["payload"] * 28
    assert np.nanmax(np.abs(it.offsets[3:])) < 5 * SIGMA
    it.clients[0].needed += 200.0
    it.run(10)
    # Up to three rounds until sequences that disagree with payload are believed, and one until payload is.
    assert [plan.kind for plan in it.plans[30:]][5:] == ["payload"] * 5
    assert np.nanmax(np.abs(it.offsets[36:])) < 5 * SIGMA


# --- What counts ----------------------------------------------------------------------------------------------------


def test_a_measurement_without_an_answer_does_not_count():
    loop = Loop(1, SETTINGS)
    loop.plan()
    loop.measured(arrivals(0, "acquire", 1, 7.0))
    assert loop.clients[0].state == "uncalibrated"
    assert loop.clients[0].reason == "did not answer"


def test_an_answer_of_another_round_or_epoch_does_not_count():
    for round_, epoch in ((1, 3), (0, 2)):
        loop = Loop(1, SETTINGS)
        loop.gap(0, 3, "start")
        loop.plan()
        loop.answered(Answer(0, round_, epoch, "acquire", 0.0, 0.0, 0.0, 40.0))
        loop.measured(arrivals(0, "acquire", 1, 7.0))
        assert loop.clients[0].state == "uncalibrated"


def test_an_answer_with_a_new_epoch_is_a_gap():
    it = tracking()
    it.loop.plan()
    it.loop.answered(Answer(0, it.loop.round, 5, "payload", 0.0))
    assert it.states()[0] == "uncalibrated"
    assert it.loop.plan().orders[0].epoch == 5


def test_a_round_is_measured_once():
    it = tracking()
    before = it.loop.clients
    it.loop.measured(arrivals(it.loop.round - 1, "payload", 2, 50.0))
    assert it.loop.clients == before


def test_a_weak_measurement_does_not_count():
    it = tracking()
    it.clients[0].snr_db, it.clients[0].needed = -20.0, 500.0
    correction = it.loop.clients[0].correction_samples
    it.run(SETTINGS.patience_rounds - 1)
    assert it.states()[0] == "tracking"
    assert it.loop.clients[0].correction_samples == pytest.approx(correction, abs=0.1)
    it.round()
    assert it.states()[0] == "uncalibrated"
    assert "-20.0 dB" in it.loop.clients[0].reason


# --- Down, and up again ---------------------------------------------------------------------------------------------


def test_a_gap_is_a_new_epoch_and_the_client_is_silent_until_it_is_heard():
    it = tracking()
    it.loop.plan()
    it.clients[0].epoch, it.clients[0].needed = 1, 3000.0
    it.loop.gap(0, 1, "underflow")
    assert it.loop.clients[0].reason == "underflow"
    plan = it.loop.plan()  # of the round that is under way
    assert (plan.kind, [o.mode for o in plan.orders], plan.orders[0].epoch) == ("payload", ["silent", "payload"], 1)
    it.round()
    assert [plan.kind for plan in it.run(3)] == ["acquire", "acquire", "payload"]


def test_a_gap_that_is_told_again_later_counts_once():
    it = tracking()
    it.clients[0].epoch = 1
    it.loop.gap(0, 1, "underflow")
    it.run(4)
    it.loop.gap(0, 1, "underflow")
    assert it.states() == ["tracking"] * 2


def test_a_client_that_began_anew_may_count_its_epochs_from_zero():
    it = tracking()
    for epoch in (5, 0):
        it.clients[0].epoch = epoch
        it.loop.gap(0, epoch, "started")
        it.run(4)
        assert it.states() == ["tracking"] * 2


def test_two_outliers_that_agree_are_a_jump():
    it = tracking()
    it.clients[0].needed += 5.0
    it.run(2)
    assert it.states() == ["fine", "tracking"]
    assert "jumped by +5.0 samples" in last_reason(it)
    it.run(2)
    assert it.states() == ["tracking"] * 2
    assert abs(it.offsets[-1][0] if np.isfinite(it.offsets[-1][0]) else 0) < 0.1


def test_one_outlier_is_not_followed():
    it = tracking()
    before = it.loop.clients[0].correction_samples
    it.clients[0].needed += 300.0
    it.round()
    assert it.states()[0] == "tracking"
    assert it.loop.clients[0].correction_samples == pytest.approx(before, abs=0.02)
    it.clients[0].needed -= 300.0
    it.run(3)
    assert it.states()[0] == "tracking"
    assert abs(it.offsets[-1][0]) < 5 * SIGMA


def test_outliers_that_do_not_agree_say_nothing():
    it = tracking()
    needed = it.clients[0].needed
    for step in (300.0, -500.0, 100.0, 700.0):
        it.clients[0].needed = needed + step
        it.round()
    assert it.states()[0] == "uncalibrated"
    assert "4 outliers" in it.loop.clients[0].reason


def test_silence_and_return():
    it = tracking()
    it.clients[0].answers = False
    it.run(SETTINGS.patience_rounds)
    assert it.states() == ["uncalibrated", "tracking"]
    assert it.loop.clients[0].reason == f"did not answer, {SETTINGS.patience_rounds} rounds in a row"
    it.run(400)
    it.clients[0].answers = True
    it.run(SETTINGS.largest_wait_rounds + 3)
    assert it.states() == ["tracking"] * 2


def test_a_dead_client_does_not_stop_the_others():
    it = world(NumberClient(10.0), NumberClient(answers=False), NumberClient(heard=False))
    kinds = [plan.kind for plan in it.run(1000)]
    # Asked at distances 1, 2, 4 .. 64, then every 64 rounds: some 8 + 1000 / 64 times, for each of the two. The one
    # that answers is first looked for everywhere: twice near, then two tries for each step either way.
    places = 2 + 4 * SETTINGS.sweep_reach_samples // SETTINGS.sweep_step_samples
    assert kinds.count("acquire") <= 2 * (8 + 1000 // SETTINGS.largest_wait_rounds) + places
    assert it.states()[0] == "tracking"


def test_a_client_that_breaks_all_the_time_does_not_stop_the_others():
    it = world(NumberClient(10.0), NumberClient(20.0))
    for n in range(600):
        it.round()
        if n % 4 == 3:
            it.clients[1].epoch += 1
            it.loop.gap(1, it.clients[1].epoch, "underflow")
    kinds = [plan.kind for plan in it.plans[300:]]
    assert kinds.count("acquire") < 30


def test_a_client_that_was_silent_and_says_so_is_asked_at_once():
    it = tracking()
    it.clients[0].answers = False
    it.run(200)
    it.clients[0].answers, it.clients[0].epoch = True, 1
    it.loop.gap(0, 1, "started")
    it.run(3)
    assert it.states() == ["tracking"] * 2


# --- Switches -------------------------------------------------------------------------------------------------------


def test_switched_off_all_send_without_corrections_and_on_again_all_are_acquired():
    it = tracking()
    it.loop.enabled = False
    for plan in it.run(5):
        assert plan.kind == "payload"
        assert [(o.mode, o.correction_samples) for o in plan.orders] == [("payload", 0.0)] * 2
    assert it.loop.clients[0].offset_samples == pytest.approx(-100.0, abs=5 * SIGMA)
    it.loop.enabled = True
    assert it.states() == ["uncalibrated"] * 2
    assert [plan.kind for plan in it.run(3)] == ["acquire", "acquire", "payload"]


def test_restart():
    it = tracking()
    it.loop.restart()
    assert it.states() == ["uncalibrated"] * 2
    assert [plan.kind for plan in it.run(3)] == ["acquire", "acquire", "payload"]


def test_drift_is_seen():
    it = tracking(NumberClient(ppm=17.0), NumberClient(ppm=-3.0))
    assert [view.drift_ppm for view in it.loop.clients] == pytest.approx([17.0, -3.0], abs=0.01)


# --- Whatever happens -----------------------------------------------------------------------------------------------

EVENT = st.sampled_from(["round", "deaf", "mute", "back", "gap", "jump", "restart", "off", "on", "weak"])


@given(events=st.lists(st.tuples(EVENT, st.integers(0, 2)), max_size=60))
@settings(max_examples=20, deadline=None)
def test_nobody_sends_payload_unless_tracking_and_all_recover(events):
    it = world(NumberClient(50.0), NumberClient(-20.0), NumberClient())
    for event, n in events:
        client = it.clients[n]
        if event == "deaf":
            client.heard = False
        elif event == "mute":
            client.answers = False
        elif event == "back":
            client.heard = client.answers = True
            client.snr_db = 20.0
        elif event == "weak":
            client.snr_db = -30.0
        elif event == "gap":
            client.epoch += 1
            client.needed += 1234.5
            it.loop.gap(n, client.epoch, "gap")
        elif event == "jump":
            client.needed += 3.3
        elif event == "restart":
            it.loop.restart()
        elif event in ("off", "on"):
            it.loop.enabled = event == "on"
        it.round()  # asserts that payload is sent by tracking clients alone
    it.loop.enabled = True
    for client in it.clients:
        client.heard = client.answers = True
        client.snr_db = 20.0
    it.run(2 * SETTINGS.largest_wait_rounds + 20)
    assert it.states() == ["tracking"] * 3
    assert np.nanmax(np.abs(it.offsets[-5:])) < 0.1


def test_the_same_inputs_give_the_same_plans():
    assert world().run(20) == world().run(20)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: Loop(0), "clients"),
        (lambda: Loop(2, guesses={2: Guess()}), "client of a guess"),
        (lambda: Loop(2).gap(2, 0, ""), "client"),
        (lambda: Loop(2).measured(arrivals(0, "acquire", 3)), "offset_samples"),
        (lambda: LoopSettings(turnaround_samples=0), "turnaround_samples"),
        (lambda: LoopSettings(least_gain_db=1.0), "least_gain_db"),
        (lambda: Answer(0, 0, 0, "acquire", float("nan")), "correction_samples"),
        (lambda: Answer(0, 0, 0, "all", 0.0), "sent"),
        (lambda: arrivals(0, "other", 1), "kind"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
