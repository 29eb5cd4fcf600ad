# SPDX-License-Identifier: GPL-3.0-or-later
"""The desk of a run whose payloads go by radio."""

import numpy as np
import pytest

from fl_app.link.caller import Result
from fl_app.link.trainer import trained
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.dsp.waveform.schemes.energies import PEAK_ENERGY
from tests.fl_app.link.desk_room import D, N, Room


class Bursts(list):
    """What a client has handed to its radio."""

    def __call__(self, burst):
        self.append(burst)


@pytest.fixture
def radio_room():
    """Clients that keep their votes for their radios; `room.bursts` has what these got."""
    return room_with_radios()


def room_with_radios(**terms):
    room = Room(payload_to="radio", **terms)
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


def transmit(room, round_, first, stop, clients=range(N), radio_round=70, **more):
    burst = {"radio_round": radio_round, "run": 9, "first": first, "stop": stop, **more}
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


def test_entries_are_reported_by_rms_and_peak_and_go_to_the_radio_in_the_scale_of_all():
    room, scheme = room_with_radios(mode="energy"), scheme_named("energy")
    room.ask()
    entries = np.linspace(-0.02, 0.01, D, dtype=np.float32)
    for identity, caller in room.callers.items():
        room.up(identity, caller.finish(caller.next_work(), trained(caller.welcome, scheme, entries, 1.0, 0.5)))
    answers = room.desk.close().answers
    for client in range(N):
        assert (answers[client].sent, answers[client].payload) == (True, None)
        rms = float(np.sqrt(np.mean(entries.astype(np.float64) ** 2)))
        assert answers[client].levels == pytest.approx((rms, 0.02), rel=1e-6)
    transmit(room, 0, 0, D, scale=100.0)
    transmit(room, 0, 0, 4, radio_round=71, scale=1e6)
    for client in range(N):
        whole, cut = room.bursts[client]
        assert whole.votes.dtype == np.float32
        np.testing.assert_allclose(whole.votes, 100 * entries, rtol=1e-6)
        np.testing.assert_array_equal(cut.votes, np.full(4, -PEAK_ENERGY, np.float32))


@pytest.mark.parametrize("levels", [{}, {"rms": 1.0}, {"rms": -1.0, "peak": 1.0}, {"rms": 1.0, "peak": 1e30}])
def test_entries_by_radio_without_a_sound_report_are_an_offence(levels):
    room = room_with_radios(mode="energy")
    room.ask()
    identity, caller = next(iter(room.callers.items()))
    body = {"loss": 1.0, "seconds": 0.5, "sent": True, **levels}
    room.up(identity, caller.finish(caller.next_work(), Result(body, kept=np.ones(D, np.float32))))
    assert room.desk.counts["bad"] == 1
    assert not room.desk.job.answers


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf"), "1"])
def test_a_scale_that_is_none_is_not_followed(scale):
    room, scheme = room_with_radios(mode="energy"), scheme_named("energy")
    room.ask()
    for identity, caller in room.callers.items():
        answer = trained(caller.welcome, scheme, np.ones(D, np.float32), 1.0, 0.5)
        room.up(identity, caller.finish(caller.next_work(), answer))
    transmit(room, 0, 0, D, scale=scale)
    assert not any(room.bursts.values())
    assert [caller.bad_messages for caller in room.callers.values()] == [1] * N
