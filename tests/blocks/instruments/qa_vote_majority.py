# SPDX-License-Identifier: GPL-3.0-or-later
"""The sign of the sum of all clients' votes, round by round."""

import numpy as np
import pmt
import pytest
from gnuradio import gr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oac_blocks.blocks.instruments.vote_majority import vote_majority
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until


class Majority:
    def __init__(self, clients):
        self.block = vote_majority(clients)
        self.tb = gr.top_block()
        self._out = Messages(self.tb, self.block, "majority")

    def vote(self, votes, **metadata):
        post(self.block, "votes", pdus.make(np.asarray(votes, np.int8), metadata))

    def results(self, n):
        """(round, majority) of so many, and no more."""
        until(lambda: len(self._out) >= n)
        found = self._out.pdus(np.int8)
        assert len(found) == n
        return [(pmt.to_long(pdu.metadata["round"]), pdu.data.tolist()) for pdu in found]


@pytest.fixture
def three():
    made = Majority(3)
    with running(made.tb):
        yield made


def test_majority_and_ties(three):
    three.vote([1, 1, -1, -1, 1, 0, 0], round=9)
    three.vote([1, 1, -1, 0, -1, 0, 1], round=9)
    three.vote([1, -1, -1, -1, 0, 0, 0], round=9)
    assert three.results(1) == [(9, [1, 1, -1, -1, 0, 0, 1])]
    assert three.block.dropped == 0


@settings(max_examples=40, deadline=None)
@given(arrays(np.int8, st.tuples(st.integers(1, 5), st.integers(1, 40)), elements=st.integers(-1, 1)))
def test_counting_by_hand_gives_the_same(ballots):
    majority = Majority(len(ballots))
    with running(majority.tb):
        for votes in ballots:
            majority.vote(votes, round=0)
        ((_, found),) = majority.results(1)
    for vote, column in zip(found, ballots.T.tolist(), strict=True):
        ayes, noes = column.count(1), column.count(-1)
        assert vote == (1 if ayes > noes else -1 if noes > ayes else 0)


def test_many_clients_do_not_overflow_an_int8():
    majority = Majority(127)
    with running(majority.tb):
        for _ in range(127):
            majority.vote([1, -1], round=0)
        assert majority.results(1) == [(0, [1, -1])]


@settings(max_examples=20, deadline=None)
@given(st.permutations([number for number in range(4) for _ in range(3)]))
def test_rounds_may_be_interleaved(order):
    """Each round's majority comes with its third vote. Round t has t votes for and 3 - t against."""
    majority, cast = Majority(3), dict.fromkeys(range(4), 0)
    finished = []
    with running(majority.tb):
        for number in order:
            majority.vote([1 if cast[number] < number else -1], round=number)
            cast[number] += 1
            if cast[number] == 3:
                finished.append((number, [1 if number >= 2 else -1]))
        assert majority.results(4) == finished


def test_what_gives_no_majority_is_counted(three):
    post(three.block, "votes", pmt.intern("no PDU"))
    post(three.block, "votes", pdus.make(np.ones(2, np.float32), {"round": 0}))  # soft votes are no votes
    three.vote([1, 1])  # of which round?
    three.vote([1, 1], round="last")
    for votes in ([1, 1], [1, 1, 1], [1, 1]):  # of different lengths: the whole round
        three.vote(votes, round=1)
    for _ in range(3):
        three.vote([1, -1], round=2)
    assert three.results(1) == [(2, [1, -1])]
    assert three.block.dropped == 5


def test_rounds_that_stay_incomplete_do_not_pile_up(three):
    for number in range(300):
        three.vote([1], round=number)
    until(lambda: three.block.dropped == 300 - 256)
    for number in (299, 299, 300 - 256, 300 - 256):  # the newest and the oldest that are still there
        three.vote([1], round=number)
    assert three.results(2) == [(299, [1]), (300 - 256, [1])]


def test_begins_anew_when_the_flowgraph_does(three):
    half = Majority(2)
    for votes in ([1, 1], [-1, -1]):
        with running(half.tb):
            half.vote(votes, round=0)
            until(lambda: half.block._waiting)
    with running(half.tb):
        for votes in ([-1, 1], [-1, 1]):
            half.vote(votes, round=0)
        assert half.results(1) == [(0, [-1, 1])]


@pytest.mark.parametrize("clients", [0, 128, 1.5])
def test_bad_arguments_are_named(clients):
    with pytest.raises(ValueError, match=rf"clients must be .*{clients}"):
        vote_majority(clients)
