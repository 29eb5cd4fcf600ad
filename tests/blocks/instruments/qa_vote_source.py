# SPDX-License-Identifier: GPL-3.0-or-later
"""Votes at a pace and on request, the same for the same seed."""

import time

import numpy as np
import pmt
import pytest
from gnuradio import gr

from oac_blocks.blocks.instruments.vote_source import vote_source
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until


def started(source):
    tb = gr.top_block()
    return tb, Messages(tb, source, "votes")


def ask(source):
    # A message for a hierarchical block goes to the block within.
    post(source._sender, "next", pmt.PMT_T)


def test_votes_come_at_their_pace_and_rounds_count_up():
    tb, sent = started(vote_source(100, period_ms=10))
    begun = time.monotonic()
    with running(tb):
        until(lambda: len(sent) >= 6)
        assert time.monotonic() - begun >= 4 * 0.010  # never faster, however busy the machine is
    found = sent.pdus(np.int8)
    assert [pmt.to_python(pdu.metadata["round"]) for pdu in found] == list(range(len(found)))
    assert all(len(pdu.data) == 100 and set(pdu.data.tolist()) == {-1, 1} for pdu in found)


def test_on_request_alone_and_the_same_for_the_same_seed():
    runs = []
    for _ in range(2):
        source = vote_source(1000, period_ms=0, abstain_share=0.25, seed=3)
        tb, sent = started(source)
        with running(tb):
            for _ in range(3):
                ask(source)
            until(lambda sent=sent: len(sent) == 3)
        runs.append(np.stack([pdu.data for pdu in sent.pdus(np.int8)]))
    np.testing.assert_array_equal(runs[0], runs[1])
    # 3,000 draws: the share is 0.25 within four standard errors of sqrt(0.25 * 0.75 / 3000) = 0.008.
    assert abs(np.mean(runs[0] == 0) - 0.25) < 0.032


def test_setters_work_while_it_runs():
    source = vote_source(10, period_ms=0)
    tb, sent = started(source)
    with running(tb):
        ask(source)
        until(lambda: len(sent) == 1)
        source.set_k(20)
        source.set_abstain_share(1.0)
        source.set_period_ms(5)
        until(lambda: len(sent) >= 4)
    first, second, *_ = sent.pdus(np.int8)
    assert (len(first.data), len(second.data)) == (10, 20)
    assert not second.data.any()


@pytest.mark.parametrize("arguments", [{"k": 0}, {"period_ms": -1}, {"abstain_share": 1.5}, {"seed": -1}])
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        vote_source(**arguments)
