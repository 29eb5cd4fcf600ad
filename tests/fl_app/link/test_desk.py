# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol without sockets: the server's desk and clients, with every message in our hands."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.air import AirSettings, make_air
from fl_app.core.selection import make_policy
from fl_app.core.server import Server
from fl_app.link.caller import Caller, Result
from fl_app.link.desk import Desk
from fl_app.link.downlink import change_of, checksum_of, whole_model
from fl_app.link.terms import Terms
from fl_app.link.wire import Message, pack, unpack

D, K, N = 64, 16, 3


class Room:
    """A server's model, its desk and some clients in one room; messages wait in `mail` until they are delivered."""

    def __init__(self, mode="onebit", n=N, **changes):
        self.now, self.round = 0.0, 0
        rng = np.random.default_rng(1)
        policy = make_policy("fair-k", D, K, rng=np.random.default_rng(2))
        self.server = Server(rng.normal(size=D).astype(np.float32), policy, 0.1, mode)
        terms = {
            "n_clients": n,
            "d": D,
            "scheme": self.server.scheme,
            "eta": 0.1,
            "config": "[run]\n",
            "config_hash": "c",
            "fingerprint": "f",
            "heartbeat_seconds": 1.0,
            "silent_seconds": 10.0,
            "cut_off_after": 5,
        }
        self.unreachable = set()
        self.desk = Desk(
            Terms(**{**terms, **changes}), lambda: whole_model(self.server), lambda who: who not in self.unreachable
        )
        self.desk.set_state(0, None, checksum_of(self.server))
        self.callers = {}
        self.kinds = []  # of all that the desk has sent

    def connect(self, client, identity=None, **options):
        identity = identity or f"connection {client}".encode()
        self.callers[identity] = Caller(client, **options)
        return identity

    def up(self, identity, messages):
        """From a client to the desk, and what comes back to everybody it concerns."""
        for frames in messages:
            self.down(self.desk.handle(identity, None, [bytes(frame) for frame in frames], self.now))

    def down(self, outgoing):
        for one in outgoing:
            self.kinds.append(one.kind)
            caller = self.callers.get(one.identity)
            if caller is None:
                continue
            self.up(one.identity, caller.handle([bytes(frame) for frame in one.frames], self.now))
            if caller.phase == "preparing":
                self.up(one.identity, caller.prepared(D, "f"))

    def raw(self, identity, *args, **kwargs):
        """A message that no honest client sends."""
        self.kinds.clear()
        self.up(identity, [pack(Message(*args, **kwargs))])
        return list(self.kinds)

    def tick(self, *identities, seconds=1.0):
        self.now += seconds
        for identity in identities or list(self.callers):
            self.up(identity, self.callers[identity].tick())

    def ask(self):
        self.down(self.desk.open("train", self.round, self.server.selected.size, self.now))

    def answer(self, *identities, votes=None):
        for identity in identities or list(self.callers):
            work = self.callers[identity].next_work()
            assert work is not None, identity
            payload = np.ones(work.selected.size, np.int8) if votes is None else votes
            body = {"loss": 1.0, "seconds": 0.5, "sent": True}
            self.up(identity, self.callers[identity].finish(work, Result(body, {"payload": payload})))

    def close(self):
        """As the training loop does: add up, update, and show the desk."""
        answers = self.desk.close().answers
        sent = self.server.selected
        total = sum(answers[client].payload.astype(np.float32) for client in sorted(answers))
        self.server.update(total + np.float32(0.25))
        self.round += 1
        self.desk.set_state(self.round, change_of(self.server, sent), checksum_of(self.server))
        return answers

    def assert_copies_are_right(self, *identities):
        for identity in identities or list(self.callers):
            assert self.callers[identity]._replica.w.tobytes() == self.server.w.tobytes()


@pytest.fixture
def room():
    room = Room()
    for client in range(N):
        room.connect(client)
    room.tick()
    return room


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
    room.desk.set_state(room.round, {}, checksum_of(room.server))
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
    for _ in range(4):
        room.ask()
        for _ in range(400):
            room.tick()
            for identity, caller in room.callers.items():
                if caller.phase == "preparing":
                    room.up(identity, caller.prepared(D, "f"))
                if caller._wanted is not None and caller._running is None and not caller._has_answer(caller._wanted):
                    room.answer(identity)
            if len(room.desk.job.answers) == N:
                break
        room.assert_copies_are_right()
        assert sorted(room.close()) == [0, 1, 2]
    assert not room.desk.counts["bad"]


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


def test_second_client_of_one_number_is_refused_unless_the_first_is_gone(room):
    second = room.connect(1, b"second")
    room.tick(second, seconds=0.1)
    assert room.callers[second].phase == "refused"
    assert room.callers[second].reason == "client 1 is here already; give each client an --id of its own"
    room.unreachable.add(b"connection 1")  # its process was killed
    third = room.connect(1, b"third")
    room.tick(third, seconds=0.1)
    assert room.desk.by_client[1].identity == third
    room.now += 11  # longer than anybody may be silent
    fourth = room.connect(1, b"fourth")
    room.tick(fourth, seconds=0.1)
    assert room.desk.by_client[1].identity == fourth


def test_same_client_on_a_new_connection_takes_its_place(room):
    """The network broke: ZeroMQ has a new connection, and the desk has never seen it."""
    caller = room.callers.pop(b"connection 1")
    room.callers[b"new"] = caller
    room.ask()
    room.tick(b"new")
    assert room.desk.by_client[1].identity == b"new"
    room.answer()
    assert sorted(room.close()) == [0, 1, 2]
    assert not room.desk.counts["bad"]


def test_client_of_a_server_that_started_again(room):
    room.ask(), room.answer(), room.close()
    reborn = Room()
    reborn.callers = room.callers
    reborn.tick()  # heartbeats to a server that knows nobody: rejoin, join, welcome, ready
    reborn.ask()
    reborn.tick(seconds=3)
    assert sorted(session.client for session in reborn.desk.ready()) == [0, 1, 2]
    reborn.assert_copies_are_right()
    # They have the answer to this very round already, from before.
    assert sorted(reborn.desk.job.answers) == [0, 1, 2]
    assert not reborn.desk.counts["bad"]


def test_client_of_a_server_that_started_another_run_begins_anew(room):
    room.ask(), room.answer()
    other = Room(config_hash="another learning rate")
    other.callers = room.callers
    prepared = [caller._prepared for caller in other.callers.values()]
    assert prepared == [(D, "f")] * N
    other.ask()
    other.tick()
    # The model is the same in round 0, but an answer of the run before is none of this one.
    assert other.desk.job.answers == {}
    assert other.kinds.count("model") == N
    other.answer()
    assert sorted(other.desk.job.answers) == [0, 1, 2]


@pytest.mark.parametrize(
    ("terms", "client", "user", "body", "why"),
    [
        ({}, 7, None, {}, "client 7: this run has the clients 0 to 2"),
        ({}, 0, None, {"config_hash": "other"}, "client 0 has another config (other) than this run (c)"),
        ({"admitted": {"key": 1}}, 0, "key", {}, "client 0: this key is admitted for another client"),
        ({"admitted": {"key": 1}}, 0, "stranger", {}, "client 0: this key is admitted for another client"),
    ],
)
def test_refusals(terms, client, user, body, why):
    room = Room(**terms)
    frames = pack(Message("join", client, -1, 1, {"instance": "i", "config_hash": "", **body}))
    (out,) = room.desk.handle(b"x", user, [bytes(frame) for frame in frames], 0.0)
    reply = unpack([bytes(frame) for frame in out.frames], 10_000)
    assert (reply.type, reply.body["reason"]) == ("refused", why)
    assert not room.desk.sessions


@pytest.mark.parametrize(
    ("d", "fingerprint", "why"),
    [
        (D + 1, "f", f"client 0 has a model of {D + 1} parameters, but this run's model has {D}"),
        (D, "g", "client 0 has other data, another split or other first weights than the server"),
    ],
)
def test_other_model_or_data_is_refused(d, fingerprint, why):
    room = Room()
    caller = Caller(0)
    (join,) = caller.tick()
    (welcome,) = room.desk.handle(b"x", None, [bytes(f) for f in join], 0.0)
    caller.handle([bytes(f) for f in welcome.frames], 0.0)
    (ready,) = caller.prepared(d, fingerprint)
    (refused,) = room.desk.handle(b"x", None, [bytes(f) for f in ready], 0.0)
    caller.handle([bytes(f) for f in refused.frames], 0.0)
    assert (caller.phase, caller.reason) == ("refused", why)
    assert not room.desk.sessions


def test_silence_is_not_waited_for_unless_the_server_itself_did_not_listen(room):
    room.ask()
    room.tick(b"connection 0", b"connection 1", seconds=11)
    assert room.desk.waiting_for(room.now) == [0, 1]
    assert room.desk.snapshot(room.now)[2]["state"] == "silent"
    room.desk.forgive(5)
    assert room.desk.waiting_for(room.now) == [0, 1, 2]


def test_everybody_is_told_when_the_run_is_over(room):
    room.down(room.desk.stop("the run is finished"))
    assert all(caller.phase == "stopped" for caller in room.callers.values())
    assert not room.desk.sessions  # all have said good-bye
    late = room.connect(1, b"late")
    room.tick(late)
    assert room.callers[late].reason == "the run is finished"


def test_client_drops_what_is_not_the_servers(room):
    room.ask()
    caller = room.callers[b"connection 0"]
    for frames in (
        [b"garbage"],
        pack(Message("stop", 1, -1, 99, {"reason": "x"})),  # of another client
        pack(Message("stop", -1, -1, 1, {"reason": "x"})),  # replayed
        pack(Message("fly", -1, -1, 99)),
        pack(Message("work", -1, 0, 100, {"kind": "dance", "state": 0, "checksum": "x"})),
    ):
        assert caller.handle([bytes(frame) for frame in frames], room.now) == []
    assert caller.bad_messages == 5
    assert not caller.is_over
    room.answer()


class Bursts(list):
    """What a client has handed to its radio."""

    def __call__(self, burst):
        self.append(burst)


@pytest.fixture
def radio_room():
    """Clients that keep their votes for their radios; `room.bursts` has what these got."""
    room = Room(payload_to="radio")
    room.bursts = {}
    for client in range(N):
        room.bursts[client] = Bursts()
        room.tick(room.connect(client, hand_to_radio=room.bursts[client]))
    return room


def done_with(room, identity, votes):
    """Train, and keep these votes for the radio."""
    work = room.callers[identity].next_work()
    body = {"loss": 1.0, "seconds": 0.5, "sent": True}
    room.up(identity, room.callers[identity].finish(work, Result(body, kept=votes)))


def transmit(room, round_, first, stop, clients=range(N), radio_round=70):
    burst = {"radio_round": radio_round, "run": 9, "first": first, "stop": stop}
    room.down(room.desk.transmit(clients, round_, burst))


def test_votes_go_to_the_radio_when_they_are_called_for_and_not_to_the_server(radio_room):
    room = radio_room
    room.ask()
    votes = np.arange(D).astype(np.int8) % 3 - 1  # round 0 sends all entries
    for identity in room.callers:
        done_with(room, identity, votes)
    answers = room.desk.close().answers
    assert [(answers[client].sent, answers[client].payload) for client in range(N)] == [(True, None)] * N
    assert not any(room.bursts.values())
    transmit(room, 0, 10, 25, clients=[0, 2])
    transmit(room, 0, 10, 25, clients=[0, 2], radio_round=71)
    for client in (0, 2):
        assert [burst.round for burst in room.bursts[client]] == [70, 71]
        assert {burst.run for burst in room.bursts[client]} == {9}
        assert np.array_equal(room.bursts[client][0].votes, votes[10:25])
    assert not room.bursts[1]


def test_votes_that_a_client_does_not_have_do_not_go_out(radio_room):
    room = radio_room
    transmit(room, 0, 0, 5)  # nobody has trained yet
    room.ask()
    for identity in room.callers:
        done_with(room, identity, np.ones(D, np.int8))
    transmit(room, 1, 0, 5)  # another round's
    transmit(room, 0, 5, 5)
    transmit(room, 0, 0, D + 1)
    assert not any(room.bursts.values())
    assert [caller.bad_messages for caller in room.callers.values()] == [2] * N


def test_votes_that_nobody_asked_for_are_an_offence(radio_room):
    room = radio_room
    room.ask()
    identity = next(iter(room.callers))
    room.answer(identity)
    assert room.desk.counts["bad"] == 1
    assert not room.desk.job.answers
