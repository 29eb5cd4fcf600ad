# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is let in at the server's desk, who takes whose place, and how a run ends; without sockets."""

import pytest

from fl_app.link.caller import Caller
from fl_app.link.wire import Message, pack, unpack
from tests.fl_app.link.desk_room import D, N, Room


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
