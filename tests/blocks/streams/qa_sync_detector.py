# SPDX-License-Identifier: GPL-3.0-or-later
"""The sync detector in a flowgraph: samples, tags and messages against dsp's own search."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.sync_detector import sync_detector
from oac_blocks.blocks.trigger_source import trigger_source
from oac_blocks.dsp.preamble import TriggerSearch, find_triggers, trigger
from tests.support.flowgraphs import Messages, post, run, running, tag, tags
from tests.support.polling import until

TRIGGER = trigger()
DELAY = sync_detector().delay_samples
CHUNK = 4096


def stream(starts, cfo, length, seed=1, snr_db=10.0):
    rng = np.random.default_rng(seed)
    x = np.sqrt(0.5 / 10 ** (snr_db / 10)) * rng.standard_normal((length, 2)).view(np.complex128)[:, 0]
    for start in starts:
        x[start : start + len(TRIGGER)] += TRIGGER * np.exp(1j * cfo * np.arange(len(TRIGGER)))
    return x.astype(np.complex64)


def through(detector, x, source_tags=()):
    """(samples, sync tags, messages) of a run over a record that is a multiple of the chunk."""
    tb = gr.top_block()
    source = blocks.vector_source_c(x.tolist(), False, 1, list(source_tags))
    sink = blocks.vector_sink_c()
    messages = Messages(tb, detector, "detections")
    tb.connect(source, detector, sink)
    run(tb)
    return (
        np.array(sink.data(), np.complex64),
        sink,
        [pmt.to_python(pmt.car(messages[i])) for i in range(len(messages))],
    )


@pytest.mark.parametrize("chunk", [1, 1000, CHUNK, 65_536])
@pytest.mark.parametrize("tracking", [False, True])
def test_samples_tags_and_messages(chunk, tracking):
    starts = [900, 15_000, 16_300, 40_000, 65_400, 90_000]
    x = stream(starts, 0.04, 131_072)
    samples, sink, messages = through(sync_detector(tracking=tracking, chunk_samples=chunk), x)
    # The tail that fills no chunk stays behind.
    assert len(samples) == len(x) // chunk * chunk
    np.testing.assert_array_equal(samples[:DELAY], 0)
    np.testing.assert_array_equal(samples[DELAY:], x[: len(samples) - DELAY])
    expected = find_triggers(x)
    found = tags(sink, "sync")
    assert [offset - DELAY for offset, _, _ in found] == [round(d.time_samples) for d in expected] == starts
    for (_, _, value), detection in zip(found, expected, strict=True):
        assert value["time"] == pytest.approx(detection.time_samples, abs=1e-3)
        assert value["sample"] + value["fraction"] == pytest.approx(value["time"], abs=1e-9)
        assert abs(value["fraction"]) <= 0.5
        assert value["cfo"] == pytest.approx(0.04, abs=1e-3)
        assert value["metric"] == pytest.approx(detection.metric, abs=0.05)
        assert value["snr_db"] == pytest.approx(10, abs=1.5)
    assert messages == [value for _, _, value in found]


@pytest.mark.parametrize(("max_cfo_rad", "cfo"), [(0.175, 0.175), (0.4, -0.4), (0, 0.02)])
def test_the_search_reaches_as_far_as_it_is_told(max_cfo_rad, cfo):
    x = stream([5000], cfo, 16 * CHUNK, snr_db=0.0)
    _, sink, messages = through(sync_detector(max_cfo_rad=max_cfo_rad, chunk_samples=CHUNK), x)
    assert [offset - DELAY for offset, _, _ in tags(sink, "sync")] == [5000]
    assert [message["cfo"] for message in messages] == pytest.approx([cfo], abs=1e-3)


def test_messages_are_pdus_without_data():
    tb = gr.top_block()
    x = stream([5000], 0.0, 16 * CHUNK)
    detector = sync_detector(chunk_samples=CHUNK)
    messages = Messages(tb, detector, "detections")
    tb.connect(blocks.vector_source_c(x.tolist()), detector, blocks.null_sink(gr.sizeof_gr_complex))
    run(tb)
    assert len(messages) == 1
    assert pmt.is_pdu(messages[0])
    assert pmt.length(pmt.cdr(messages[0])) == 0


def test_tags_of_the_input_are_delayed_with_their_samples():
    x = stream([5000], 0.0, 16 * CHUNK)
    detector = sync_detector(chunk_samples=CHUNK)
    _, sink, _ = through(detector, x, [tag(0, "rx_time", 17), tag(5000, "burst", 3), tag(12_345, "burst", 4)])
    assert tags(sink, "rx_time", "burst") == [
        (DELAY, "rx_time", 17),
        (DELAY + 5000, "burst", 3),
        (DELAY + 12_345, "burst", 4),
    ]
    assert [offset for offset, _, _ in tags(sink, "sync")] == [DELAY + 5000]


def test_it_finds_the_trigger_sources_rounds_in_lock_step():
    """Each round's trigger is found in that round, and the next round waits for it."""
    round_samples, rounds = 32_768, 30
    source = trigger_source("lock_step", round_samples, 0.3, rounds, chunk_samples=CHUNK)
    detector = sync_detector(chunk_samples=CHUNK)
    tb = gr.top_block()
    messages = Messages(tb, detector, "detections")
    sink = blocks.vector_sink_c()
    tb.connect(source, detector, sink)
    with running(tb):
        for t in range(rounds):
            post(source, "fire", pmt.from_long(t))
            until(lambda t=t: len(messages) == t + 1)
        until(lambda: len(sink.data()) == rounds * round_samples)
    truth = [(offset, number) for offset, _, number in tags(sink, "trigger")]
    assert truth == [(t * round_samples + DELAY, t) for t in range(rounds)]
    assert [offset for offset, _, _ in tags(sink, "sync")] == [offset for offset, _ in truth]
    assert detector.detections == rounds


def test_a_flowgraph_that_is_started_again_counts_from_zero():
    x = stream([5000, 20_000], 0.0, 16 * CHUNK)
    tb = gr.top_block()
    source = blocks.vector_source_c(x.tolist())
    detector = sync_detector(chunk_samples=CHUNK)
    sink = blocks.vector_sink_c()
    tb.connect(source, detector, sink)
    for _ in range(2):
        source.rewind()
        sink.reset()
        run(tb)
        assert [offset for offset, _, _ in tags(sink, "sync")] == [DELAY + 5000, DELAY + 20_000]
        assert detector.detections == 2


def test_bad_samples_neither_stop_the_stream_nor_the_search():
    x = stream([5000, 20_000], 0.0, 16 * CHUNK)
    x[10_000:10_003] = np.nan, np.inf, 1e30
    detector = sync_detector(chunk_samples=CHUNK)
    samples, sink, _ = through(detector, x)
    np.testing.assert_array_equal(samples[DELAY:], x[: len(x) - DELAY])
    assert [offset for offset, _, _ in tags(sink, "sync")] == [DELAY + 5000, DELAY + 20_000]
    assert detector.bad_samples == 3


def test_a_search_that_fails_costs_a_chunk_and_no_more(monkeypatch):
    x = stream([5000, 30_000], 0.0, 20 * CHUNK)
    detector = sync_detector(chunk_samples=CHUNK)
    push, calls = TriggerSearch.push, []

    def failing(search, samples):
        calls.append(len(samples))
        if len(calls) == 1:
            raise RuntimeError("no memory left")
        return push(search, samples)

    monkeypatch.setattr(TriggerSearch, "push", failing)
    samples, sink, _ = through(detector, x)
    assert len(samples) == len(x)
    assert detector.dropped == 1
    heard = [start for start in (5000, 30_000) if start >= calls[0]]
    assert [offset - DELAY for offset, _, _ in tags(sink, "sync")] == heard


def test_setters_apply_while_it_runs():
    """A source in lock step gives one round at a time; between them the settings change."""
    round_samples = 20 * CHUNK
    source = trigger_source("lock_step", round_samples, 0.1, chunk_samples=CHUNK)
    noise = blocks.vector_source_c(stream([], 0.0, round_samples, snr_db=20).tolist(), True)
    add, detector = blocks.add_cc(), sync_detector(chunk_samples=CHUNK)
    sink = blocks.null_sink(gr.sizeof_gr_complex)
    tb = gr.top_block()
    tb.connect(source, (add, 0))
    tb.connect(noise, (add, 1))
    tb.connect(add, detector, sink)

    def one_round(t):
        post(source, "fire", pmt.PMT_T)
        until(lambda: detector.nitems_written(0) == (t + 1) * round_samples)
        return detector.detections

    with running(tb):
        assert one_round(0) == 1
        assert detector.tracked_cfo_rad == pytest.approx(0, abs=0.01)
        detector.set_min_snr_db(20.0)
        assert one_round(1) == 1
        detector.set_min_snr_db(-9.5)
        detector.set_tracking(False)
        assert one_round(2) == 2
        assert detector.tracked_cfo_rad is None
        detector.set_tracking(True)
        assert one_round(3) == 3
        assert detector.tracked_cfo_rad is not None
        detector.set_lost_after_samples(1)
        assert one_round(4) == 4
        assert detector.tracked_cfo_rad is None
        detector.set_min_snr_db(-100.0)
        detector.set_false_alarm_per_sample(1e-2)
        assert one_round(5) > 10


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"false_alarm_per_sample": 0.5}, "false_alarm_per_sample"),
        ({"min_snr_db": "low"}, "min_snr_db"),
        ({"lost_after_samples": 0}, "lost_after_samples"),
        ({"max_cfo_rad": 2.0}, "max_cfo_rad"),
        ({"chunk_samples": 0}, "chunk_samples"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        sync_detector(**arguments)
