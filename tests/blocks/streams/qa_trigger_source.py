# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's stream: where triggers stand, how they are tagged, and when rounds begin."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.trigger_source import MAX_WAITING_ROUNDS, trigger_source
from oac_blocks.dsp.preamble import trigger
from tests.support.flowgraphs import post, run, running, tags, wait
from tests.support.polling import until

CHUNK = 1024


def with_sink(source, *between):
    tb = gr.top_block()
    sink = blocks.vector_sink_c()
    tb.connect(source, *between, sink)
    return tb, sink


def samples_of(sink):
    return np.array(sink.data(), np.complex64)


def expected(starts, length, amplitude=0.5):
    x = np.zeros(length, np.complex64)
    for start in starts:
        x[start : start + len(trigger())] = np.float32(amplitude) * trigger()
    return x


@pytest.mark.parametrize("round_samples", [280, 1000, 4096, 5001])
def test_periodic_rounds_to_the_sample_and_then_the_end(round_samples):
    source = trigger_source(round_samples=round_samples, rounds=5, chunk_samples=CHUNK)
    tb, sink = with_sink(source)
    run(tb)
    starts = [round_samples * t for t in range(5)]
    np.testing.assert_array_equal(samples_of(sink), expected(starts, 5 * round_samples))
    assert tags(sink) == [(start, "trigger", t) for t, start in enumerate(starts)]
    assert source.begun == 5


def test_a_stream_without_end_fills_large_chunks():
    source = trigger_source()
    tb, sink = with_sink(source, blocks.head(gr.sizeof_gr_complex, 600_000))
    run(tb)
    np.testing.assert_array_equal(samples_of(sink), expected([0, 262_144, 524_288], 600_000))


def test_a_message_fires_in_the_middle_of_silence():
    source = trigger_source("message", 2000, rounds=3, chunk_samples=CHUNK)
    tb, sink = with_sink(source)
    with running(tb):
        until(lambda: len(sink.data()) > 5 * CHUNK)
        assert tags(sink) == []
        # Two at once: the second waits until the first one's round is over.
        post(source, "fire", pmt.from_long(7))
        post(source, "fire", pmt.PMT_T)
        until(lambda: source.begun == 2)
        post(source, "fire", pmt.intern("now"))
        until(lambda: len(tags(sink)) == 3)  # the sink has it, too: what is still on its way is lost when it stops
    x, found = samples_of(sink), tags(sink)
    starts = [offset for offset, _, _ in found]
    assert [number for _, _, number in found] == [7, 8, 9]
    assert starts[1] == starts[0] + 2000
    assert starts[2] >= starts[1] + 2000
    np.testing.assert_array_equal(x, expected(starts, len(x)))


def test_lock_step_gives_one_round_a_message_and_nothing_else():
    source = trigger_source("lock_step", 4 * CHUNK, chunk_samples=CHUNK)
    tb, sink = with_sink(source)
    with running(tb):
        for t in range(20):
            assert len(sink.data()) == 4 * CHUNK * t
            post(source, "fire", pmt.from_long(100 + t))
            until(lambda t=t: len(sink.data()) >= 4 * CHUNK * (t + 1))
    starts = [4 * CHUNK * t for t in range(20)]
    np.testing.assert_array_equal(samples_of(sink), expected(starts, 80 * CHUNK))
    assert tags(sink) == [(start, "trigger", 100 + t) for t, start in enumerate(starts)]


def test_lock_step_ends_after_its_rounds():
    source = trigger_source("lock_step", 2 * CHUNK, rounds=3, chunk_samples=CHUNK)
    tb, sink = with_sink(source)
    tb.start()
    for _ in range(5):
        post(source, "fire", pmt.PMT_T)
    assert wait(tb)
    assert len(sink.data()) == 6 * CHUNK
    assert source.begun == 3


@pytest.mark.parametrize(
    ("message", "number"),
    [
        (pmt.from_long(5), 5),
        (pdus.to_dict({"round": 6}), 6),
        (pdus.make(np.zeros(1, np.float32), {"round": 7}), 7),
        (pdus.to_dict({"round": "six"}), 0),
        (pdus.to_dict({}), 0),
        (pmt.cons(pmt.from_long(1), pmt.from_long(2)), 0),
        (pmt.intern("fire"), 0),
        (pmt.PMT_NIL, 0),
    ],
)
def test_any_message_fires_and_may_number_the_round(message, number):
    source = trigger_source("lock_step", CHUNK, rounds=1, chunk_samples=CHUNK)
    tb, sink = with_sink(source)
    with running(tb):
        post(source, "fire", message)
        until(lambda: len(sink.data()) == CHUNK)
    assert tags(sink) == [(0, "trigger", number)]


def test_setters_apply_from_the_next_round():
    source = trigger_source("lock_step", CHUNK, 0.25, chunk_samples=CHUNK)
    tb, sink = with_sink(source)
    with running(tb):
        post(source, "fire", pmt.PMT_T)
        until(lambda: len(sink.data()) == CHUNK)
        source.set_amplitude(0.75)
        source.set_round_samples(3 * CHUNK)
        post(source, "fire", pmt.PMT_T)
        until(lambda: len(sink.data()) == 4 * CHUNK)
    x = samples_of(sink)
    np.testing.assert_array_equal(x[:CHUNK], expected([0], CHUNK, 0.25))
    np.testing.assert_array_equal(x[CHUNK:], expected([0], 3 * CHUNK, 0.75))
    assert (source.amplitude, source.round_samples) == (0.75, 3 * CHUNK)


def test_messages_beyond_reason_are_dropped_and_counted():
    source = trigger_source("lock_step", CHUNK, chunk_samples=CHUNK)
    # No flowgraph takes them away.
    for _ in range(MAX_WAITING_ROUNDS + 3):
        source._on_fire(pmt.PMT_T)
    assert source.dropped == 3
    periodic = trigger_source()
    periodic._on_fire(pmt.PMT_T)
    assert periodic.dropped == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"mode": "sometimes"}, "mode"),
        ({"round_samples": 279}, "round_samples"),
        ({"round_samples": 1e5}, "round_samples"),
        ({"mode": "lock_step", "round_samples": 100_000}, "round_samples"),
        ({"amplitude": 1.1}, "amplitude"),
        ({"amplitude": float("nan")}, "amplitude"),
        ({"rounds": -1}, "rounds"),
        ({"chunk_samples": 100}, "chunk_samples"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        trigger_source(**arguments)
