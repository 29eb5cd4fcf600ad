# SPDX-License-Identifier: GPL-3.0-or-later
"""Error rates as a stream and as messages; PDUs find each other by round or by order."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.instruments.vote_probe import vote_probe
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until

VOTES = np.array([1, -1, 1, -1, 0], np.int8)
# Wrong at the first, undecided at the second: two of the four that were cast.
SOFT = np.array([-2.0, 0.0, 0.5, -3.0, 9.0], np.float32)


@pytest.fixture
def probe():
    block = vote_probe()
    tb = gr.top_block()
    block.stream, block.reports = blocks.vector_sink_f(), Messages(tb, block, "error_rate")
    tb.connect(block, block.stream)
    with running(tb):
        yield block


def send(probe, port, data, **metadata):
    post(probe, port, pdus.make(data, metadata))


def reports(probe, n):
    until(lambda: len(probe.reports) >= n and len(probe.stream.data()) >= n)
    assert len(probe.reports) == len(probe.stream.data()) == n
    return [pmt.to_python(probe.reports[i]) for i in range(n)]


def test_error_rate_of_a_burst_and_of_all(probe):
    send(probe, "reference", VOTES, round=4)
    send(probe, "soft_votes", SOFT, round=4)
    send(probe, "soft_votes", VOTES.astype(np.float32), round=5)
    send(probe, "reference", VOTES, round=5)
    first, second = reports(probe, 2)
    assert first == {"round": 4, "errors": 2, "votes": 4, "error_rate": 0.5, "mean_error_rate": 0.5}
    assert second == {"round": 5, "errors": 0, "votes": 4, "error_rate": 0.0, "mean_error_rate": 0.25}
    assert probe.stream.data() == pytest.approx([0.5, 0.0])
    assert probe.mean_error_rate == 0.25
    probe.reset()
    assert np.isnan(probe.mean_error_rate)


def test_rounds_meet_in_any_order_and_a_lost_one_spoils_no_other(probe):
    for t in (1, 2, 3):
        send(probe, "reference", VOTES if t != 2 else -VOTES, round=t)
    send(probe, "soft_votes", VOTES.astype(np.float32), round=3)
    send(probe, "soft_votes", VOTES.astype(np.float32), round=1)
    # Messages of one port keep their order, those of two ports may overtake each other.
    assert sorted((r["round"], r["errors"]) for r in reports(probe, 2)) == [(1, 0), (3, 0)]


def test_without_rounds_the_order_counts(probe):
    for sign in (1, -1):
        send(probe, "soft_votes", sign * VOTES.astype(np.float32))
    for _ in range(2):
        send(probe, "reference", VOTES)
    assert [r["errors"] for r in reports(probe, 2)] == [0, 4]
    assert "round" not in reports(probe, 2)[0]


def test_what_cannot_be_compared_is_dropped(probe):
    post(probe, "reference", pmt.intern("no PDU"))
    send(probe, "soft_votes", VOTES, round=1)  # int8 is no soft vote
    send(probe, "reference", VOTES, round=2)
    send(probe, "soft_votes", SOFT[:3], round=2)
    send(probe, "reference", 0 * VOTES, round=3)
    send(probe, "soft_votes", SOFT, round=3)
    send(probe, "reference", VOTES, round=4)
    send(probe, "soft_votes", SOFT, round=4)
    assert [r["round"] for r in reports(probe, 1)] == [4]
    until(lambda: probe.dropped == 4)


def test_soft_votes_that_nobody_asks_for_do_not_pile_up(probe):
    for t in range(300):
        send(probe, "soft_votes", SOFT, round=t)
    until(lambda: probe.dropped == 300 - 256)
    send(probe, "reference", VOTES, round=299)
    reports(probe, 1)
    assert probe.dropped == 300 - 256
