# SPDX-License-Identifier: GPL-3.0-or-later
"""A round is fired when all clients are armed for it, once, and not before."""

import time

import numpy as np
import pmt
import pytest
from gnuradio import gr
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.blocks.round_control import round_control
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until

FIRST = {"round": 0, "kind": "payload", "run": 5}


class Control:
    """A round control that runs, and what it has sent."""

    def __init__(self, *arguments):
        self.block = round_control(*arguments)
        self.tb = gr.top_block()
        self.ports = {name: Messages(self.tb, self.block, name) for name in ("expect", "next", "fire", "missed")}
        self._asked = 0

    def plan(self, number, kind="payload", run=5):
        self.settle()  # what was sent to the other port comes first
        post(self.block, "plan", pdus.notice({"round": number, "kind": kind, "run": run}))

    def status(self, event, client, number, **more):
        self.settle()
        status = {"event": event, "client": client, "round": number, "epoch": 0, **more}
        post(self.block, "status", pdus.notice(status))

    def settle(self):
        """Wait until all that was posted has been dealt with: a message that cannot be used is counted last."""
        for port in ("plan", "status"):
            dropped = self.block.dropped
            post(self.block, port, pmt.PMT_NIL)
            until(lambda dropped=dropped: self.block.dropped > dropped)
            self._asked += 1

    @property
    def dropped(self):
        self.settle()
        return self.block.dropped - self._asked

    def fired(self):
        """Rounds that were fired. What the block has sent may still be on its way to the store."""
        self.settle()
        until(lambda: len(self.ports["fire"]) == self.block.fired)
        return [message["round"] for message in self.sent("fire", self.block.fired)]

    def sent(self, port, n):
        until(lambda: len(self.ports[port]) == n)
        return [pdus.read_notice(self.ports[port][i]) for i in range(n)]


@pytest.fixture
def control():
    made = Control(2)
    with running(made.tb):
        yield made


def test_fires_when_all_are_armed_and_not_before(control):
    control.plan(0)
    control.status("armed", 0, 0)
    control.settle()
    assert control.block.waiting_for == (1,)
    assert control.fired() == []
    control.status("armed", 1, 0)
    assert control.fired() == [0]
    assert control.block.waiting_for == ()
    control.status("armed", 1, 0)  # said twice
    assert control.fired() == [0]
    assert control.block.fired == 1


def test_tells_the_server_and_the_applications_what_comes(control):
    for number, kind in ((3, "acquire"), (4, "payload")):
        control.plan(number, kind)
        for client in (0, 1):
            control.status("armed", client, number)
        control.settle()
    assert control.fired() == [3, 4]
    about = {"run": 5, "voters": 0, "voting": ""}
    assert control.sent("expect", 2) == [
        {"round": 3, "kind": "acquire", **about},
        {"round": 4, "kind": "payload", **about},
    ]
    assert control.sent("next", 1) == [{"round": 4, "run": 5, "seconds": 0.0}]
    # They are PDUs, so that GNU Radio's own blocks take them as well.
    assert all(pmt.is_pdu(control.ports[port][0]) for port in ("expect", "next", "fire"))


def test_the_server_is_told_how_many_votes_come(control):
    control.plan(0)
    control.status("armed", 0, 0, votes=500)
    control.settle()
    assert len(control.ports["expect"]) == 0
    control.status("armed", 1, 0, votes=500)
    assert control.sent("expect", 1) == [{**FIRST, "votes": 500, "voters": 2, "voting": "0, 1"}]
    control.plan(1)
    control.status("armed", 0, 1, votes=70)
    control.status("armed", 1, 1, votes=80)
    assert control.sent("expect", 2)[1] == {
        "round": 1,
        "kind": "payload",
        "run": 5,
        "votes": 70,
        "voters": 1,
        "voting": "0",
    }
    assert control.dropped == 1


def ballot(number, votes, takes_part, run=5):
    return pdus.make(np.array(takes_part, np.int8), {"round": number, "run": run, "votes": votes})


def test_who_abstains_or_breaks_is_no_voter():
    control = Control(5)
    with running(control.tb):
        control.plan(0)
        control.settle()  # nobody can answer before he is asked
        post(control.block, "ballot", ballot(0, 500, [1, 0, 1, 1, 1]))
        for client, votes in enumerate([500, 500, 500]):
            control.status("armed", client, 0, votes=votes)
        control.status("gap", 2, 0)
        control.status("armed", 3, 0)  # a client that is ordered to be silent
        control.status("armed", 4, 0, votes=499)
        assert control.sent("expect", 1) == [{**FIRST, "votes": 500, "voters": 1, "voting": "0"}]
        assert control.dropped == 1


def test_a_ballot_alone_says_how_many_votes_a_round_has():
    """Clients that take part and have none in time send sync symbols, in a frame of that length."""
    control = Control(2, 0, 0.0, 0.0, 0.2)
    with running(control.tb):
        control.plan(0)
        control.settle()
        post(control.block, "ballot", ballot(0, 500, [1, 1]))
        assert control.sent("expect", 1) == [{**FIRST, "votes": 500, "voters": 0, "voting": ""}]
        control.plan(1)  # nothing is said of this one
        assert control.sent("expect", 2)[1] == {"round": 1, "kind": "payload", "run": 5, "voters": 0, "voting": ""}


@pytest.mark.parametrize(
    "bad",
    [
        pmt.PMT_T,
        ballot(0, 500, [1]),
        ballot(0, 500, []),
        ballot(0, 0, [1, 1]),
        ballot(0, 1 << 40, [1, 1]),
        ballot(0, 500, [1, 1], run=6),
        pdus.make(np.ones(2, np.int8), {"votes": 500}),
        pdus.make(np.ones(2, np.float32), {"round": 0, "run": 5, "votes": 500}),
    ],
)
def test_a_ballot_that_makes_no_sense_is_dropped(control, bad):
    control.plan(0)
    control.settle()
    post(control.block, "ballot", bad)
    for client in (0, 1):
        control.status("armed", client, 0)
    assert control.sent("expect", 1) == [{"round": 0, "kind": "payload", "run": 5, "voters": 0, "voting": ""}]
    assert control.dropped == 1


@pytest.mark.parametrize(
    "strange",
    [
        {"event": pdus.float64_vector([1.0, 2.0])},
        {"event": 7},
        {"client": pdus.float64_vector([1.0, 2.0])},
        {"votes": pdus.float64_vector([1.0, 2.0])},
        {"votes": 1 << 40},
        {"votes": -1},
        {"votes": True},
        {"round": "first"},
    ],
)
def test_a_status_that_makes_no_sense_is_dropped_and_ends_nothing(control, strange):
    control.plan(0)
    control.settle()
    post(control.block, "status", pdus.notice({"event": "armed", "client": 0, "round": 0, "epoch": 0, **strange}))
    for client in (0, 1):
        control.status("armed", client, 0)
    assert control.fired() == [0]
    assert control.dropped == 1


def test_a_plan_that_is_repeated_or_old_fires_nothing(control):
    for number in (0, 1):
        control.plan(number, "acquire")
        for client in (0, 1):
            control.status("armed", client, number)
    for number in (1, 0, 1):
        control.plan(number, "acquire")
    assert control.fired() == [0, 1]
    control.plan(2, "acquire")
    for client in (0, 1):
        control.status("armed", client, 2)
    assert control.fired() == [0, 1, 2]


def test_armed_for_another_round_or_another_event_does_not_count(control):
    control.plan(5)
    control.status("armed", 0, 5)
    control.status("armed", 1, 4)
    control.status("answered", 1, 5)
    control.status("abstained", 1, 5)
    assert control.fired() == []
    control.status("armed", 1, 5)
    assert control.fired() == [5]
    assert control.dropped == 0


def test_a_gap_frees_a_client_for_one_round(control):
    control.plan(0)
    control.status("armed", 0, 0)
    control.status("gap", 1, 0)
    assert control.fired() == [0]
    control.plan(1)
    control.status("armed", 0, 1)
    control.settle()
    assert control.block.waiting_for == (1,)
    control.status("armed", 1, 1)
    assert control.fired() == [0, 1]


def test_a_gap_that_comes_before_the_plan_frees_it_too(control):
    """The order that went out with the plan named the epoch before; the client will never be armed by it."""
    control.status("gap", 0, 1)
    control.settle()
    control.plan(1)
    control.status("armed", 1, 1)
    assert control.fired() == [1]


def test_who_was_armed_and_then_broke_is_ready_again_only_by_a_new_order(control):
    control.plan(0)
    control.status("armed", 0, 0)
    control.status("gap", 0, 0)
    control.status("armed", 0, 0)
    control.settle()
    assert control.block.waiting_for == (1,)
    control.status("armed", 1, 0)
    assert control.fired() == [0]


@settings(max_examples=15, deadline=None)
@given(st.permutations([("plan", None), ("armed", 0), ("armed", 1), ("armed", 2)]))
def test_messages_may_overtake_each_other(order):
    """Orders reach the clients before the plan is sent: they may be armed before it is here."""
    control = Control(3)
    with running(control.tb):
        for i, (event, client) in enumerate(order):
            assert control.block.fired == 0, order[:i]
            control.plan(7, "acquire") if event == "plan" else control.status(event, client, 7)
            control.settle()
        assert control.fired() == [7]


def test_who_is_late_is_not_waited_for():
    control = Control(2, 0, 0.0, 0.0, 0.2)
    with running(control.tb):
        control.plan(0)
        control.status("armed", 0, 0, votes=30)
        assert control.sent("fire", 1) == [{"round": 0}]
        assert control.sent("expect", 1) == [{**FIRST, "votes": 30, "voters": 1, "voting": "0"}]


def test_a_round_without_arrivals_is_over_after_the_deadline():
    control = Control(2, 0, 0.0, 0.2, 0.2)
    with running(control.tb):
        control.plan(4, "acquire")
        for client in (0, 1):
            control.status("armed", client, 4)
        [missed] = control.sent("missed", 1)
        assert (missed["round"], missed["kind"]) == (4, "acquire")
        assert np.isnan(missed["trigger_sample"])
        for name in ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db"):
            assert np.isnan(missed[name]).all()
            assert len(missed[name]) == 2
        control.plan(5, "acquire")  # what the calibrator says to that
        assert control.sent("fire", 2)[1] == {"round": 5}


def test_a_round_that_brings_arrivals_is_not_missed():
    control = Control(1, 0, 0.0, 0.3)
    with running(control.tb):
        for number in range(4):
            control.plan(number)
            control.status("armed", 0, number)
        assert control.sent("fire", 4)[3] == {"round": 3}
        assert control.sent("missed", 1)[0]["round"] == 3  # the last, and no other


def test_stops_after_its_rounds():
    control = Control(1, 2)
    with running(control.tb):
        for number in range(4):
            control.plan(number, "acquire")
            control.status("armed", 0, number)
        assert control.fired() == [0, 1]
        control.sent("expect", 2)
        assert control.dropped == 0


def test_rounds_do_not_begin_faster_than_allowed():
    control = Control(1, 0, 20.0)
    with running(control.tb):
        begin = time.monotonic()
        for number in range(4):
            control.plan(number, "acquire")
            control.status("armed", 0, number)
            until(lambda number=number: control.block.fired == number + 1)
        assert time.monotonic() - begin >= 3 / 20.0  # at least: the machine may be slow
        control.block.set_rounds_per_second(1e-3)
        control.plan(4, "acquire")
        control.status("armed", 0, 4)
        control.settle()
        assert control.block.fired == 4
    # It stopped with a timer that had 1,000 s to go. And it begins anew:
    control.block.set_rounds_per_second(0.0)
    with running(control.tb):
        control.plan(0, "acquire")
        control.status("armed", 0, 0)
        until(lambda: control.block.fired == 1)


def test_begins_anew_when_the_flowgraph_does():
    control = Control(1, 1)
    for _ in range(2):
        with running(control.tb):
            control.plan(0)
            control.status("armed", 0, 0)
            control.settle()
            assert control.block.fired == 1


def test_messages_that_cannot_be_used_are_counted(control):
    for plan in ({"round": 0}, {"round": 0, "kind": "lunch"}, {"kind": "payload"}, {"round": 0.5, "kind": "payload"}):
        post(control.block, "plan", pdus.notice(plan))
    for status in ({"event": "armed", "client": 0}, {"client": 0, "round": 0}, {"event": "armed", "round": 0}):
        post(control.block, "status", pdus.notice(status))
    post(control.block, "status", pdus.notice({"event": "armed", "client": 2, "round": 0}))
    post(control.block, "status", pdus.make(np.ones(3, np.float32)))
    assert control.dropped == 9
    assert len(control.ports["expect"]) == 0
    control.plan(0)
    for client in (0, 1):
        control.status("armed", client, 0)
    assert control.fired() == [0]


@pytest.mark.parametrize("arguments", [{"clients": 0}, {"clients": 1.5}, {"rounds": -1}, {"rounds_per_second": -1.0}])
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        round_control(**arguments)
