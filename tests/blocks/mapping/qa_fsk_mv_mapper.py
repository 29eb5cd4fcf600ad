# SPDX-License-Identifier: GPL-3.0-or-later
"""Votes in, subcarriers out: the same as dsp's, with the tags that belong to them."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.fsk_mv_mapper import fsk_mv_mapper
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp import Numerology, fsk_mv
from tests.support.flowgraphs import post, running, tags
from tests.support.polling import until

NUM = Numerology()
RNG = np.random.default_rng(1)


def votes(k):
    return RNG.integers(-1, 2, k).astype(np.int8)


def started(mapper, active=192):
    tb = gr.top_block()
    sink = blocks.vector_sink_c(active)
    tb.connect(mapper, sink)
    return tb, sink


def symbols_in(sink, active=192):
    return len(sink.data()) // active


@pytest.mark.parametrize("repeats", [1, 3])
def test_bursts_are_those_of_dsp_bit_for_bit_and_tagged(repeats):
    ballots = [votes(k) for k in (1, 960, 21_880, 109_402)]
    mapper = fsk_mv_mapper(192, repeats, seed=5)
    tb, sink = started(mapper)
    rng = np.random.default_rng(5)
    expected = [fsk_mv.encode(ballot, NUM, rng, repeats) for ballot in ballots]
    with running(tb):
        for t, ballot in enumerate(ballots):
            post(mapper, "votes", pdus.make(ballot, {"round": t}))
        until(lambda: symbols_in(sink) == sum(map(len, expected)))
    np.testing.assert_array_equal(np.array(sink.data(), np.complex64).reshape(-1, 192), np.concatenate(expected))
    starts = np.cumsum([0, *map(len, expected)])
    assert tags(sink, "packet_len") == [(starts[t], "packet_len", len(expected[t])) for t in range(4)]
    assert tags(sink, "round") == [(starts[t], "round", t) for t in range(4)]


def test_bad_messages_are_dropped_and_the_next_good_one_goes_out():
    mapper = fsk_mv_mapper()
    tb, sink = started(mapper)
    bad = [
        pmt.intern("no PDU"),
        pmt.cons(pmt.make_dict(), pmt.init_f32vector(2, [1.0, -1.0])),
        pdus.make(np.array([1, 7], np.int8)),
        pdus.make(np.array([], np.int8)),
    ]
    with running(tb):
        for message in bad:
            post(mapper, "votes", message)
        post(mapper, "votes", pdus.make(votes(96)))
        until(lambda: symbols_in(sink) == 1)
    assert mapper.dropped == len(bad)


def test_repeats_and_the_tag_can_be_chosen():
    mapper = fsk_mv_mapper(48, length_tag="symbols")
    tb, sink = started(mapper, 48)
    with running(tb):
        post(mapper, "votes", pdus.make(votes(48)))
        until(lambda: symbols_in(sink, 48) == 2)
        mapper.set_repeats(4)
        post(mapper, "votes", pdus.make(votes(48)))
        until(lambda: symbols_in(sink, 48) == 2 + 8)
    assert tags(sink) == [(0, "symbols", 2), (2, "symbols", 8)]
    assert mapper.repeats == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"active_subcarriers": 190},
        {"active_subcarriers": 0},
        {"active_subcarriers": "many"},
        {"repeats": 0},
        {"repeats": 1.5},
        {"seed": -1},
        {"length_tag": ""},
    ],
)
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        fsk_mv_mapper(**arguments)
