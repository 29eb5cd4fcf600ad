# SPDX-License-Identifier: GPL-3.0-or-later
"""The round engine: which events fire a round, which end it, and that no order of events hangs it."""

import math

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oac_blocks.rounds.engine import EngineSettings, RoundEngine
from oac_blocks.rounds.events import (
    Armed,
    AskForPayloads,
    Ballot,
    Broke,
    Complain,
    Ended,
    Expect,
    Fire,
    Miss,
    Planned,
    WakeAt,
    Woken,
)

EVER = WakeAt(math.inf)


def played(settings, *events):
    """Tell an engine these events, (time, event), and return what it does beside waiting: (time, action)."""
    engine = RoundEngine(EngineSettings(**settings))
    done = []
    for now, event in events:
        *actions, wake = engine.take(event, now)
        assert isinstance(wake, WakeAt)
        assert not any(isinstance(action, WakeAt) for action in actions)
        done += [(now, action) for action in actions]
    return done


def expected(number, kind="acquire", voting=(), votes=None, run=0):
    return Expect(number, kind, run, voting, votes)


# what the table shows, the settings, the events, the actions
TABLE = [
    (
        "a round is fired when the last client is armed",
        {},
        [(0, Planned(0, "acquire")), (1, Armed(0, 0)), (2, Armed(1, 0))],
        [(2, expected(0)), (2, Fire(0))],
    ),
    (
        "a payload round asks for payloads first",
        {"arm_seconds": 5.0},
        [(0, Planned(0, "payload")), (1, Armed(0, 0, 70)), (2, Armed(1, 0, 70))],
        [(0, AskForPayloads(0, 0, 5.0)), (2, expected(0, "payload", (0, 1), 70)), (2, Fire(0))],
    ),
    (
        "clients may be armed before the plan is here",
        {},
        [(0, Armed(1, 4)), (0, Armed(0, 4)), (1, Planned(4, "acquire"))],
        [(1, expected(4)), (1, Fire(4))],
    ),
    (
        "armed for another round does not count",
        {},
        [(0, Planned(4, "acquire")), (0, Armed(0, 3)), (0, Armed(1, 5)), (0, Armed(0, 4))],
        [],
    ),
    (
        "armed by an earlier start of the server does not count",
        {"clients": 1},
        [(0, Armed(0, 0, run=6)), (0, Planned(0, "acquire", 7)), (1, Armed(0, 0, run=7))],
        [(1, expected(0, run=7)), (1, Fire(0))],
    ),
    (
        "a client whose stream broke is not waited for, in one round",
        {},
        [
            (0, Planned(0, "acquire")),
            (0, Armed(0, 0)),
            (1, Broke(1)),
            (2, Ended(0)),
            (2, Planned(1, "acquire")),
            (3, Armed(0, 1)),
            (4, Armed(1, 1)),
        ],
        [(1, expected(0)), (1, Fire(0)), (4, expected(1)), (4, Fire(1))],
    ),
    (
        "a client that broke after it was armed brings no votes",
        {},
        [(0, Planned(0, "payload")), (0, Armed(0, 0, 9)), (0, Broke(0)), (0, Armed(1, 0, 9))],
        [(0, AskForPayloads(0, 0, 0.0)), (0, expected(0, "payload", (1,), 9)), (0, Fire(0))],
    ),
    (
        "a restarted client that was armed anew is waited for and counts",
        {},
        [(0, Planned(0, "payload")), (0, Broke(0)), (0, Armed(0, 0, 9)), (0, Armed(1, 0, 9))],
        [(0, AskForPayloads(0, 0, 0.0)), (0, expected(0, "payload", (0, 1), 9)), (0, Fire(0))],
    ),
    (
        "nobody is waited for after the arm timeout, and not a moment earlier",
        {"arm_seconds": 2.0},
        [(10, Planned(0, "acquire")), (10, Armed(0, 0)), (11.9, Woken()), (12, Woken())],
        [(12, expected(0)), (12, Fire(0))],
    ),
    (
        "rounds keep their pace",
        {"clients": 1, "rounds_per_second": 0.5},
        [
            (0, Planned(0, "acquire")),
            (0, Armed(0, 0)),
            (0.1, Planned(1, "acquire")),
            (0.2, Armed(0, 1)),
            (1.9, Woken()),
            (2, Woken()),
        ],
        [(0, expected(0)), (0, Fire(0)), (2, expected(1)), (2, Fire(1))],
    ),
    (
        "a round that nothing is heard of is given up at the deadline, once",
        {"clients": 1, "deadline_seconds": 3.0},
        [(0, Planned(0, "acquire")), (0, Armed(0, 0)), (2.9, Woken()), (3, Woken()), (9, Woken())],
        [(0, expected(0)), (0, Fire(0)), (3, Miss(0, "acquire"))],
    ),
    (
        "the next plan ends a round, as does its end",
        {"clients": 1, "deadline_seconds": 3.0},
        [
            (0, Planned(0, "acquire")),
            (0, Armed(0, 0)),
            (1, Planned(1, "acquire")),
            (2, Armed(0, 1)),
            (3, Woken()),
            (4, Ended(1)),
            (9, Woken()),
        ],
        [(0, expected(0)), (0, Fire(0)), (2, expected(1)), (2, Fire(1))],
    ),
    (
        "the end of another round, and a plan that is repeated, leave the deadline alone",
        {"clients": 1, "deadline_seconds": 3.0},
        [(0, Planned(1, "acquire")), (0, Armed(0, 1)), (1, Ended(0)), (1, Planned(1, "acquire")), (3, Woken())],
        [(0, expected(1)), (0, Fire(1)), (3, Miss(1, "acquire"))],
    ),
    (
        "old and repeated plans fire nothing, nor do they put the arm timeout off",
        {"clients": 1, "arm_seconds": 2.0},
        [
            (0, Planned(3, "acquire")),
            (1, Planned(3, "acquire")),
            (1, Planned(2, "acquire")),
            (2, Woken()),
            (3, Planned(3, "acquire")),
            (3, Armed(0, 3)),
        ],
        [(2, expected(3)), (2, Fire(3))],
    ),
    (
        "a server that was started anew is followed",
        {"clients": 1},
        [
            (0, Planned(7, "acquire", 1)),
            (0, Armed(0, 7)),
            (1, Planned(0, "acquire", 2)),
            (1, Armed(0, 0)),
        ],
        [(0, expected(7, run=1)), (0, Fire(7)), (1, expected(0, run=2)), (1, Fire(0))],
    ),
    (
        "after the last round nothing is fired any more",
        {"clients": 1, "rounds": 1},
        [(0, Planned(0, "acquire")), (0, Armed(0, 0)), (1, Planned(1, "acquire")), (1, Armed(0, 1))],
        [(0, expected(0)), (0, Fire(0))],
    ),
    (
        "a ballot says how many votes there are and which clients take part",
        {"clients": 4},
        [
            (0, Planned(0, "payload")),
            (0, Ballot(0, 50, frozenset({0, 2, 3}))),
            (0, Armed(0, 0, 50)),
            (0, Armed(1, 0, 50)),
            (0, Armed(2, 0, 49)),
            (0, Armed(3, 0)),
        ],
        [
            (0, AskForPayloads(0, 0, 0.0)),
            (0, Complain("client 2 brings 49 votes to round 0, which has 50")),
            (0, expected(0, "payload", (0,), 50)),
            (0, Fire(0)),
        ],
    ),
    (
        "a ballot alone gives the round its length",
        {"arm_seconds": 1.0},
        [(0, Planned(0, "payload")), (0, Ballot(0, 50, frozenset({0, 1}))), (1, Woken())],
        [(0, AskForPayloads(0, 0, 1.0)), (1, expected(0, "payload", (), 50)), (1, Fire(0))],
    ),
    (
        "a ballot of another run is refused",
        {"clients": 1},
        [(0, Planned(0, "payload", 5)), (0, Ballot(0, 50, frozenset({0}), 6)), (0, Armed(0, 0))],
        [
            (0, AskForPayloads(0, 5, 0.0)),
            (0, Complain("run of a ballot must be the present one, 5, got 6")),
            (0, expected(0, "payload", run=5)),
            (0, Fire(0)),
        ],
    ),
]


@pytest.mark.parametrize(("shows", "settings", "events", "actions"), TABLE, ids=[row[0] for row in TABLE])
def test_table(shows, settings, events, actions):
    assert played(settings, *events) == actions, shows


def test_says_when_it_wants_to_be_woken():
    engine = RoundEngine(EngineSettings(1, rounds_per_second=0.1, deadline_seconds=3.0, arm_seconds=2.0))
    assert engine.take(Woken(), 0.0) == [EVER]
    assert engine.phase == "idle"
    assert engine.take(Planned(0, "acquire"), 5.0) == [WakeAt(7.0)]
    assert (engine.phase, engine.waiting_for) == ("arming", (0,))
    assert engine.take(Armed(0, 0), 6.0)[-1] == WakeAt(9.0)
    assert (engine.phase, engine.waiting_for, engine.fired) == ("under way", (), 1)
    assert engine.take(Ended(0), 7.0) == [EVER]
    assert engine.take(Planned(1, "acquire"), 7.0) == [WakeAt(16.0)]  # ten seconds after the trigger before it
    assert engine.take(Armed(0, 1), 8.0) == [WakeAt(16.0)]


def test_new_settings_count_from_the_next_plan_and_trigger_on():
    engine = RoundEngine(EngineSettings(1, deadline_seconds=3.0, arm_seconds=2.0))
    engine.take(Planned(0, "acquire"), 0.0)
    engine.settings = EngineSettings(1, deadline_seconds=30.0, arm_seconds=20.0)
    assert engine.take(Woken(), 0.0) == [WakeAt(2.0)]
    assert engine.take(Woken(), 2.0)[-1] == WakeAt(32.0)
    assert engine.take(Planned(1, "acquire"), 5.0) == [WakeAt(25.0)]


@pytest.mark.parametrize(
    "wrong", [{"clients": 0}, {"rounds": -1}, {"rounds_per_second": -1.0}, {"deadline_seconds": math.nan}]
)
def test_wrong_settings_are_named(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        EngineSettings(**wrong)


CLIENTS = 3
ARM, DEADLINE = 4.0, 6.0
CLIENT = st.integers(0, CLIENTS - 1)


class AnyOrder(RuleBasedStateMachine):
    """A loop that plans round after round, clients that arm, break or stay away, and a server that is started anew.

    The machine checks every trigger against its own books, which are a few lines of sets.
    """

    def __init__(self):
        super().__init__()
        self.now, self.wake = 0.0, math.inf
        self.run, self.round = 0, -1
        self.planned_at = self.fired_at = None
        self.armed = set()  # clients that are armed for the coming round
        self.broken = set()  # clients that broke since the last trigger
        self.ended = set()
        self.fired = []

    @initialize(pace=st.sampled_from([0.0, 0.5]))
    def begin(self, pace):
        self.pace = pace
        self.engine = RoundEngine(EngineSettings(CLIENTS, 0, pace, DEADLINE, ARM))
        self.plan_next()

    def tell(self, event):
        actions = self.engine.take(event, self.now)
        for action in actions:
            if isinstance(action, Fire):
                self.check_trigger(action.round)
            elif isinstance(action, Miss):
                assert action.round == self.round
                assert self.now >= self.fired_at + DEADLINE
            elif isinstance(action, WakeAt):
                self.wake = action.time
        if any(isinstance(action, Miss) for action in actions):
            self.over()

    def check_trigger(self, number):
        assert number == self.round
        assert (self.run, number) not in self.fired
        assert all(number > before for run, before in self.fired if run == self.run)
        assert self.armed | self.broken == set(range(CLIENTS)) or self.now >= self.planned_at + ARM
        if self.pace and self.fired:
            assert self.now >= self.fired_at + 1 / self.pace
        self.fired.append((self.run, number))
        self.fired_at, self.planned_at = self.now, None
        self.armed, self.broken = set(), set()

    def over(self):
        """What a loop does at the end of a round: it plans the next one."""
        self.ended.add((self.run, self.round))
        self.plan_next()

    def plan_next(self):
        self.round += 1
        self.planned_at = self.now
        self.tell(Planned(self.round, "acquire", self.run))

    @rule(client=CLIENT)
    def arms(self, client):
        if self.planned_at is not None:
            self.armed.add(client)
        self.broken.discard(client)
        self.tell(Armed(client, self.round, run=self.run))

    @rule(client=CLIENT, back=st.integers(1, 3))
    def arms_too_late(self, client, back):
        if self.round >= back:
            self.tell(Armed(client, self.round - back, run=self.run))

    @rule(client=CLIENT)
    def breaks(self, client):
        self.armed.discard(client)
        self.broken.add(client)
        self.tell(Broke(client))

    @rule()
    def the_server_hears_the_end(self):
        if self.planned_at is None:
            self.tell(Ended(self.round))
            self.over()

    @rule(back=st.integers(0, 3))
    def an_old_plan_comes_again(self, back):
        self.tell(Planned(max(0, self.round - back), "acquire", self.run))

    @rule(back=st.integers(1, 3))
    def an_old_end_comes_again(self, back):
        self.tell(Ended(self.round - back))

    @rule()
    def the_server_is_started_anew(self):
        self.run, self.round = self.run + 1, -1
        self.armed = set()  # they were armed by orders of the earlier run
        self.plan_next()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.5]))
    def time_passes(self, seconds):
        """The transport wakes the engine when it has asked for it, not when it likes to."""
        until = self.now + seconds
        while self.wake <= until:
            self.now = max(self.now, self.wake)
            self.tell(Woken())
        self.now = until

    @invariant()
    def it_never_hangs(self):
        """Left alone, the engine fires or gives up: it always asks to be woken in time."""
        assert self.wake <= self.now + ARM + DEADLINE + 2.0
        phase = self.engine.phase
        assert phase == ("under way" if self.planned_at is None else "arming")

    def teardown(self):
        """Without any further event but time, the next rounds come and go."""
        before = len(self.fired)
        for _ in range(8):
            self.time_passes(2.5)
        assert len(self.fired) > before
        assert set(self.fired[:-1]) - self.ended <= {one for one in self.fired if one[0] < self.run}


AnyOrder.TestCase.settings = hypothesis_settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase
