# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol without sockets: the server's desk and clients, with every message in our hands."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.air import AirSettings, make_air
from fl_app.link.caller import Result
from fl_app.link.downlink import checksum_of
from tests.fl_app.link.desk_room import D, N, Room


def test_clients_join_train_and_follow(room):
    for number in range(5):
        room.ask()
        assert room.desk.waiting_for(room.now) == [0, 1, 2]
        room.answer()
        assert room.desk.waiting_for(room.now) == []
        room.assert_copies_are_right()
        assert sorted(room.close()) == [0, 1, 2]
        assert room.kinds.count("model") == N, f"the whole model went out again in round {number}"
    assert not room.desk.counts["bad"]


def test_client_that_joins_later_has_the_same_model(room):
    for _ in range(3):
        room.ask(), room.answer(), room.close()
    room.desk.gone(b"connection 2")
    late = room.connect(2, b"another connection")
    room.ask()
    room.answer(b"connection 0", b"connection 1")
    room.tick(late)
    room.answer(late)
    room.assert_copies_are_right(late)
    assert sorted(room.close()) == [0, 1, 2]


def test_model_that_went_wrong_is_noticed_and_sent_whole(room):
    room.ask(), room.answer(), room.close()
    room.callers[b"connection 1"]._replica.w[3] += 1
    room.now += 10
    room.kinds.clear()
    room.ask()
    assert room.kinds.count("model") == 1
    room.assert_copies_are_right()
    room.answer()


def test_round_that_brought_nothing_costs_no_bytes(room):
    room.ask(), room.answer(), room.close()
    room.ask(), room.answer()
    room.desk.close()
    room.server.skip()
    room.round += 1
    room.desk.set_state(room.round, {}, checksum_of(room.server), room.server.rate)
    room.kinds.clear()
    room.ask()
    room.answer()
    assert "model" not in room.kinds
    room.assert_copies_are_right()
    room.close()
    room.ask(), room.answer()
    room.assert_copies_are_right()
    assert "model" not in room.kinds


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_any_loss_is_made_good(seed):
    """Every message may be lost, one in three; each round ends with all answers and right copies all the same."""
    rng = np.random.default_rng(seed)

    class Lossy(Room):
        def up(self, identity, messages):
            super().up(identity, [one for one in messages if rng.random() > 0.33])

        def down(self, outgoing):
            super().down([one for one in outgoing if rng.random() > 0.33])

    room = Lossy()
    for client in range(N):
        room.connect(client)
    for asked in ([0, 1, 2], [1], [0, 2], [0, 1, 2]):
        room.ask(asked)
        for _ in range(400):
            room.tick()
            for identity, caller in room.callers.items():
                if caller.phase == "preparing":
                    room.up(identity, caller.prepared(D, "f"))
                if caller._wanted is not None and caller._running is None and not caller._has_answer(caller._wanted):
                    room.answer(identity)
            follow = all(caller._checksum == checksum_of(room.server) for caller in room.callers.values())
            if len(room.desk.job.answers) == len(asked) and follow:
                break
        room.assert_copies_are_right()
        assert sorted(room.close()) == asked
    assert not room.desk.counts["bad"]


def test_client_that_does_not_take_part_follows_and_blocks_nothing(room):
    room.ask(), room.answer(), room.close()
    idle = b"connection 1"
    for _ in range(3):
        room.kinds.clear()
        room.ask([0, 2])
        assert room.kinds == ["work"] * N
        assert room.callers[idle].next_work() is None
        assert room.desk.waiting_for(room.now) == [0, 2]
        assert [one["state"] for one in room.desk.snapshot(room.now)] == ["working", "ready", "working"]
        room.tick(seconds=5)
        assert room.kinds.count("work") == N + 2  # the two that work are asked again; a follower that follows is not
        room.answer(b"connection 0", b"connection 2")
        assert room.desk.waiting_for(room.now) == []
        room.assert_copies_are_right()
        assert sorted(room.close()) == [0, 2]
    room.kinds.clear()
    room.ask()
    assert "model" not in room.kinds  # it was one change behind, as the others
    room.answer()
    room.assert_copies_are_right()
    assert not room.desk.counts["bad"]


def test_follower_that_missed_the_change_gets_it_again(room):
    room.ask(), room.answer(), room.close()
    deaf = room.callers.pop(b"connection 1")
    room.ask([0, 2])
    room.callers[b"connection 1"] = deaf
    room.kinds.clear()
    room.tick(b"connection 1", seconds=5)
    assert room.kinds == ["work"]
    room.assert_copies_are_right()


def test_client_that_joins_a_round_without_it_has_the_model_and_no_work(room):
    room.ask(), room.answer(), room.close()
    room.callers.pop(b"connection 1")
    room.desk.gone(b"connection 1")
    room.ask([0, 2])
    late = room.connect(1)
    room.tick(late)
    room.assert_copies_are_right()
    assert room.callers[late].next_work() is None
    assert room.callers[late].phase == "ready"


def test_work_of_a_round_that_is_over_is_dropped_when_the_next_one_goes_without_the_client(room):
    room.ask()
    slow = room.callers[b"connection 1"]
    work = slow.next_work()
    room.answer(b"connection 0", b"connection 2")
    room.close()
    room.ask([0, 2])
    assert slow.finish(work, Result({"loss": 1.0, "seconds": 9.0, "sent": False})) == []
    assert slow.next_work() is None


def test_votes_of_a_client_that_was_not_asked_do_not_count(room, caplog):
    room.ask([0, 2])
    room.raw(b"connection 1", "done", 1, 0, 50, GOOD, {"payload": np.ones(D, np.int8)})
    assert "client 1 was not asked in round 0" in caplog.text
    assert room.desk.counts["bad"] == 1
    room.answer(b"connection 0", b"connection 2")
    assert sorted(room.close()) == [0, 2]


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_rate_and_optimizer_come_from_the_server(optimizer):
    """The room's rate falls along a cosine; a client has neither its formula nor the number of rounds."""
    room = Room(optimizer=optimizer)
    for client in range(N):
        room.connect(client)
    room.tick()
    rates = set()
    for _ in range(3):
        room.ask(), room.answer(), room.close()
        rates.add(room.server.rate)
    assert len(rates) == 3
    room.ask()
    room.assert_copies_are_right()
    assert room.kinds.count("model") == N  # at the join, and never again


def test_optimizer_that_went_wrong_is_noticed_and_sent_whole():
    room = Room(optimizer="momentum")
    identity = room.connect(0)
    room.tick()
    room.ask(), room.answer(), room.close()
    room.callers[identity]._replica.step.velocity[3] += 1
    room.now += 10
    room.kinds.clear()
    room.ask()
    assert room.kinds.count("model") == 1
    room.assert_copies_are_right()


def test_measuring_asks_for_the_model_after_the_round():
    room = Room(buffers={"norm.running_mean": ("float32", (4,)), "norm.num_batches_tracked": ("int64", ())})
    for client in range(N):
        room.connect(client)
    room.tick()
    room.ask(), room.answer(), room.close()
    room.kinds.clear()
    room.down(room.desk.open("measure", 0, 0, room.now))  # the model of round 1, for the figures of round 0
    sound = {"norm.running_mean": np.ones(4, np.float32), "norm.num_batches_tracked": np.array(3)}
    spoilt = {**sound, "norm.running_mean": np.ones(5, np.float32)}
    for client, identity in enumerate(list(room.callers)):
        work = room.callers[identity].next_work()
        assert (work.kind, work.round) == ("measure", 0)
        assert work.w.tobytes() == room.server.w.tobytes()
        arrays = spoilt if client == 2 else sound
        room.up(identity, room.callers[identity].finish(work, Result({"seconds": 0.1}, arrays)))
    assert room.desk.counts["bad"] == 1
    answers = room.desk.close().answers
    assert sorted(answers) == [0, 1]
    assert answers[1].arrays["norm.num_batches_tracked"] == 3
    room.ask()
    assert room.kinds == ["work"] * 2 * N  # the change came with the first of them
    room.answer()
    room.assert_copies_are_right()


def test_late_answer_is_dropped_and_no_offence(room):
    room.ask()
    slow = room.callers[b"connection 2"].next_work()
    room.answer(b"connection 0", b"connection 1")
    room.close()
    room.raw(b"connection 2", "done", 2, 0, 99, {"loss": 0.0, "seconds": 0.0, "sent": False})
    assert slow.round == 0
    assert room.desk.counts["late"] == 1
    assert room.desk.counts["bad"] == 0
    assert room.desk.snapshot(room.now)[2]["late"] == 1


def test_nobody_votes_twice(room):
    room.ask()
    room.answer()
    votes = {"payload": -np.ones(D, np.int8)}
    room.raw(b"connection 1", "done", 1, 0, 50, {"loss": 0.0, "seconds": 0.0, "sent": True}, votes)
    assert room.desk.counts["repeated"] == 1
    assert room.close()[1].payload.sum() == D


GOOD = {"loss": 0.0, "seconds": 0.0, "sent": True}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (("done", 1, 0, 50, GOOD, {"payload": np.full(D, 2, np.int8)}), "payload must be votes -1, 0 or +1"),
        (("done", 1, 0, 50, GOOD, {"payload": np.full(D, -128, np.int8)}), "payload must be votes -1, 0 or +1"),
        (("done", 1, 0, 50, GOOD, {"payload": np.ones(D + 1, np.int8)}), "of shape"),
        (("done", 1, 0, 50, GOOD, {"payload": np.ones((2, D), np.int8)}), "of shape"),
        (("done", 1, 0, 50, GOOD, {"payload": np.ones(D, np.float32)}), "must be int8"),
        (("done", 1, 0, 50, GOOD, {}), "missing"),
        (("done", 1, 0, 50, {**GOOD, "sent": False}, {"payload": np.ones(D, np.int8)}), "none was expected"),
        (("done", 1, 0, 50, {**GOOD, "seconds": -1.0}, {"payload": np.ones(D, np.int8)}), "seconds must be"),
        (("done", 1, 1, 50, GOOD, {"payload": np.ones(D, np.int8)}), "round 1 was not asked for yet"),
        (("done", 0, 0, 50, GOOD, {"payload": np.ones(D, np.int8)}), "in the name of client 0"),
        (("done", 1, 0, 1, GOOD, {"payload": np.ones(D, np.int8)}), "replayed or out of order"),
        (("join", 1, -1, 1, {"instance": "x", "config_hash": ""}), "replayed or out of order"),
        (("vote", 1, 0, 50), "no message of type 'vote'"),
        (("heartbeat", 1, 0, 50, {"have": "x", "busy": ""}), "have must be"),
        (("done", 1, 0, 50, GOOD, {"payload": np.ones(D + 200_000, np.int8)}), "more than"),
    ],
)
def test_bad_message_is_counted_logged_with_its_sender_and_dropped(room, caplog, message, why):
    caplog.set_level(logging.WARNING)
    room.ask()
    room.raw(b"connection 1", *message)
    assert room.desk.counts["bad"] == 1
    assert why in caplog.text
    assert "dropped a message of client 1" in caplog.text
    assert 1 not in room.desk.job.answers
    room.answer(b"connection 0", b"connection 2")


def test_sender_is_cut_off_after_a_few(room, caplog):
    room.ask()
    for number in range(5):
        assert b"connection 1" in room.desk.sessions
        room.raw(b"connection 1", "vote", 1, 0, 50 + number)
    assert "client 1 is cut off after 5 bad messages" in caplog.text
    assert room.callers[b"connection 1"].phase == "refused"
    assert "cut off" in room.callers[b"connection 1"].reason
    assert b"connection 1" not in room.desk.sessions
    assert room.raw(b"connection 1", "join", 1, -1, 99, {"instance": "x", "config_hash": ""}) == []
    assert room.desk.waiting_for(room.now) == [0, 2]


def test_votes_of_one_client_move_the_sum_by_one(room):
    """Whatever a client sends, its part of the sum is at most one vote an entry; what is more is dropped whole."""
    rng = np.random.default_rng(4)
    air = make_air(AirSettings(name="ideal"), N, 1)
    for _ in range(4):
        room.ask()
        honest = rng.choice(np.array([-1, 1], np.int8), room.server.selected.size)
        room.answer(b"connection 0", b"connection 1", votes=honest)
        room.answer(b"connection 2", votes=(-100 * honest.astype(int)).astype(np.int8))  # shouts
        answers = room.desk.job.answers
        assert sorted(answers) == [0, 1]
        payload = np.stack([answers[client].payload for client in sorted(answers)])
        quiet = air.uplink(payload, np.array(sorted(answers)), room.round).received
        room.raw(b"connection 2", "done", 2, room.round, 1000 + room.round, GOOD, {"payload": -honest})
        answers = room.desk.job.answers
        payload = np.stack([answers[client].payload for client in sorted(answers)])
        voted = air.uplink(payload, np.array(sorted(answers)), room.round).received
        assert np.abs(voted - quiet).max() == 1
        np.testing.assert_array_equal(np.sign(voted), honest)  # two against one: the majority stands
        room.close()


def test_analog_entries_must_be_finite():
    room = Room("analog")
    for client in range(N):
        room.connect(client)
    room.tick()
    room.ask()
    for number, value in enumerate((np.nan, np.inf)):
        entries = np.full(D, value, np.float32)
        room.raw(b"connection 0", "done", 0, 0, 50 + number, GOOD, {"payload": entries})
    assert room.desk.counts["bad"] == 2
    room.raw(b"connection 0", "done", 0, 0, 60, GOOD, {"payload": np.full(D, 1e30, np.float32)})
    assert room.desk.job.answers[0].payload[0] == np.float32(1e30)  # nothing says how large an entry may be
