# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries to amplitudes and back: the same as dsp's, tagged, with a channel turned out."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.analog_demapper import analog_demapper
from oac_blocks.blocks.analog_mapper import analog_mapper
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp import Numerology, analog
from tests.support.flowgraphs import Messages, post, run, running, tag, tags
from tests.support.polling import until

NUM = Numerology()


def entries(k, seed=1):
    return np.random.default_rng(seed).standard_normal(k).astype(np.float32)


def channel():
    parts = np.random.default_rng(2).standard_normal((2, 192))
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


def bursts_of(mapper, entry_messages, symbols, channel_messages=(), channel_taken=lambda: True):
    """The grid and the tags that come of these messages, those on the channel sent first.

    Messages of one port keep their order, those of two ports may overtake each other: hence the wait between them.
    """
    tb = gr.top_block()
    sink = blocks.vector_sink_c(192)
    tb.connect(mapper, sink)
    with running(tb):
        for message in channel_messages:
            post(mapper, "channel", message)
        until(channel_taken)
        for message in entry_messages:
            post(mapper, "entries", message)
        until(lambda: len(sink.data()) >= 192 * symbols)
    return np.array(sink.data(), np.complex64).reshape(-1, 192), tags(sink)


def test_burst_is_that_of_dsp_bit_for_bit_and_tagged():
    first, second = entries(1000), entries(385)
    messages = [pdus.make(first, {"round": 1}), pdus.make(second, {"round": 2})]
    grid, found = bursts_of(analog_mapper(scale=0.5), messages, 5)
    expected = np.concatenate([analog.encode(first, NUM, 0.5), analog.encode(second, NUM, 0.5)])
    np.testing.assert_array_equal(grid, expected)
    assert found == [(0, "packet_len", 3), (0, "round", 1), (3, "packet_len", 2), (3, "round", 2)]


@pytest.mark.parametrize("inversion", ["phase", "truncated"])
def test_channel_estimate_turns_the_next_burst(inversion):
    h, x = channel(), entries(384)
    mapper = analog_mapper(inversion=inversion, least_magnitude=0.3)
    grid, _ = bursts_of(mapper, [pdus.make(x)], 1, [pdus.make(h)], lambda: mapper._precoding is not None)
    np.testing.assert_array_equal(grid, analog.encode(x, NUM, 1.0, analog.precoder(h, inversion, 0.3)))


def test_bad_messages_are_dropped_and_the_next_good_one_goes_out():
    mapper = analog_mapper()
    x = entries(384)
    bad_entries = [pmt.intern("no PDU"), pdus.make(np.array([np.nan], np.float32))]
    with np.errstate(invalid="ignore"):
        bad_channels = [pdus.make(x), pdus.make(channel()[:10]), pdus.make(channel() * np.inf)]
    grid, _ = bursts_of(mapper, [*bad_entries, pdus.make(x)], 1, bad_channels, lambda: mapper.dropped == 3)
    np.testing.assert_array_equal(grid, analog.encode(x, NUM, 1.0))
    assert mapper.dropped == 5


def test_demapper_gives_the_mean_of_dsp_bit_for_bit_with_metadata():
    k = 1000
    grid = analog.encode(entries(k), NUM, 0.5) + analog.encode(entries(k, 3), NUM, 0.5)
    demapper = analog_demapper(k=1)
    demapper.set_k(k)
    demapper.set_scale(0.5)
    demapper.set_n_clients(2)
    demapper.set_mean_gain(0.9)
    tb = gr.top_block()
    source_tags = [tag(0, "packet_len", 3), tag(0, "round", 8), tag(3, "packet_len", 2)]
    source = blocks.vector_source_c(np.concatenate([grid, grid[:2]]).ravel().tolist(), False, 192, source_tags)
    messages = Messages(tb, demapper, "entries")
    tb.connect(source, demapper)
    run(tb)
    (pdu,) = messages.pdus(np.float32)
    np.testing.assert_array_equal(pdu.data, analog.decode(grid, k, NUM, 0.5, 2, 0.9))
    assert pmt.to_python(pdu.metadata["round"]) == 8
    assert demapper.dropped == 1  # the second burst is too short for k


def test_scale_can_be_set():
    mapper = analog_mapper()
    mapper.set_scale(0.25)
    grid, _ = bursts_of(mapper, [pdus.make(entries(10))], 1)
    np.testing.assert_array_equal(grid, analog.encode(entries(10), NUM, 0.25))
    assert mapper.scale == 0.25


@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        (analog_mapper, {"active_subcarriers": 6}),
        (analog_mapper, {"scale": 0}),
        (analog_mapper, {"inversion": "none"}),
        (analog_mapper, {"least_magnitude": -1}),
        (analog_mapper, {"length_tag": ""}),
        (analog_demapper, {"k": 0}),
        (analog_demapper, {"scale": 0}),
        (analog_demapper, {"n_clients": 0}),
        (analog_demapper, {"mean_gain": 0}),
    ],
)
def test_bad_arguments_are_named(block, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        block(**arguments)
