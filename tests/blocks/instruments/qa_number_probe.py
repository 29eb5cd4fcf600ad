# SPDX-License-Identifier: GPL-3.0-or-later
"""A number in dictionaries, as a stream that a plot can show."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.blocks.instruments.number_probe import number_probe
from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.sync_detector import sync_detector
from oac_blocks.blocks.trigger_source import trigger_source
from tests.support.flowgraphs import post, running
from tests.support.polling import until


@pytest.fixture
def probe():
    block = number_probe("level")
    tb = gr.top_block()
    block.stream = blocks.vector_sink_f()
    tb.connect(block, block.stream)
    with running(tb):
        yield block


def numbers(probe, n):
    until(lambda: len(probe.stream.data()) >= n)
    assert len(probe.stream.data()) == n
    return list(probe.stream.data())


def test_one_item_a_message(probe):
    sent = np.random.default_rng(1).normal(0, 10, 500)
    for level in sent:
        post(probe, "messages", pdus.notice({"level": float(level), "other": 1.0}))
    np.testing.assert_array_equal(numbers(probe, 500), sent.astype(np.float32))
    assert probe.last == sent[-1]
    assert probe.dropped == 0


def test_dictionaries_and_pdus_with_data_alike_and_integers_too(probe):
    post(probe, "messages", pdus.to_dict({"level": 1}))
    post(probe, "messages", pdus.make(np.ones(3, np.float32), {"level": -2.5}))
    assert numbers(probe, 2) == [1.0, -2.5]


def test_key_can_be_changed_while_it_runs(probe):
    message = pdus.notice({"level": 1.0, "slope": 2.0})
    post(probe, "messages", message)
    numbers(probe, 1)
    probe.set_key("slope")
    assert probe.last is None
    post(probe, "messages", message)
    assert numbers(probe, 2) == [1.0, 2.0]
    assert probe.last == 2.0


def test_what_cannot_be_used_is_counted_and_spoils_nothing(probe):
    bad = [float("nan"), float("inf"), 1e39, "loud", True, 1j, pdus.float64_vector([1.0])]  # 1e39 is no float32
    for value in bad:
        post(probe, "messages", pdus.notice({"level": value}))
    post(probe, "messages", pdus.notice({"volume": 1.0}))
    post(probe, "messages", pdus.notice({}))
    post(probe, "messages", pmt.intern("no PDU"))
    post(probe, "messages", pdus.notice({"level": 3.0}))
    assert numbers(probe, 1) == [3.0]
    assert probe.dropped == len(bad) + 3


# Subnormal numbers aside, of which GNU Radio makes 0 on some machines.
@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False), max_size=20))
def test_any_float32_goes_through_as_it_is(values):
    probe = number_probe("x")
    for value in values:
        probe._on_message(pdus.notice({"x": value}))
    out = np.zeros(32, np.float32)
    assert probe.work(None, [out]) == len(values)
    assert out[: len(values)].tolist() == values


def test_numbers_that_nobody_fetches_do_not_pile_up():
    """Not running, nothing leaves it: the newest 4,096 are kept."""
    probe = number_probe("x")
    for i in range(5000):
        probe._on_message(pdus.notice({"x": i}))
    tb, sink = gr.top_block(), blocks.vector_sink_f()
    tb.connect(probe, sink)
    with running(tb):
        until(lambda: len(sink.data()) >= 4096)
    assert list(sink.data()) == list(range(5000 - 4096, 5000))


def test_times_of_triggers_as_the_sync_detector_tells_them():
    """Samples without noise: triggers are found where the source put them, up to the rounding of float32."""
    tb, sink, silence = gr.top_block(), blocks.vector_sink_f(), blocks.null_sink(gr.sizeof_gr_complex)
    source, detector, probe = trigger_source(round_samples=65_536), sync_detector(), number_probe("time")
    tb.connect(source, detector, silence)
    tb.msg_connect(detector, "detections", probe, "messages")
    tb.connect(probe, sink)
    with running(tb):
        until(lambda: len(sink.data()) >= 3)
    np.testing.assert_allclose(sink.data()[:3], [0, 65_536, 131_072], atol=0.02)
    assert probe.dropped == 0


@pytest.mark.parametrize("key", ["", 3])
def test_bad_arguments_are_named(key):
    with pytest.raises(ValueError, match=f"key must be .*{key}"):
        number_probe(key)
    with pytest.raises(ValueError, match=f"key must be .*{key}"):
        number_probe().set_key(key)
