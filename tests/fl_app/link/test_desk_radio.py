# SPDX-License-Identifier: GPL-3.0-or-later
"""The desk of a run whose payloads go by radio."""

import numpy as np
import pytest

from fl_app.link.caller import Result
from tests.fl_app.link.desk_room import D, N, Room


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
