# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of entries in dB, as a stream and as messages."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.instruments.entry_probe import entry_probe
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until

ENTRIES = np.array([3.0, -4.0], np.float32)


@pytest.fixture
def probe():
    block = entry_probe()
    tb = gr.top_block()
    block.stream, block.reports = blocks.vector_sink_f(), Messages(tb, block, "error")
    tb.connect(block, block.stream)
    with running(tb):
        yield block


def send(probe, port, data, **metadata):
    post(probe, port, pdus.make(np.asarray(data, np.float32), metadata))


def reports(probe, n):
    until(lambda: len(probe.reports) >= n and len(probe.stream.data()) >= n)
    assert len(probe.reports) == len(probe.stream.data()) == n
    return [pmt.to_python(probe.reports[i]) for i in range(n)]


def test_error_is_relative_to_the_reference(probe):
    """Off by 0.5 in one of two entries of energy 25: 0.25 / 25 is -20 dB; then an equal burst: half of it."""
    send(probe, "reference", ENTRIES, round=4)
    send(probe, "entries", np.add(ENTRIES, [0.5, 0.0]), round=4)
    send(probe, "entries", ENTRIES, round=5)
    send(probe, "reference", ENTRIES, round=5)
    first, second = reports(probe, 2)
    assert first == {"round": 4, "error_db": pytest.approx(-20), "mean_error_db": pytest.approx(-20)}
    assert second == {"round": 5, "error_db": -200.0, "mean_error_db": pytest.approx(10 * np.log10(0.005))}
    assert probe.stream.data() == pytest.approx([-20, -200])
    probe.reset()
    assert np.isnan(probe.mean_error_db)


def test_without_rounds_the_order_counts(probe):
    for factor in (1.1, 2.0):
        send(probe, "entries", factor * ENTRIES)
    for _ in range(2):
        send(probe, "reference", ENTRIES)
    assert [report["error_db"] for report in reports(probe, 2)] == pytest.approx([-20, 0], abs=1e-4)


def test_what_cannot_be_compared_is_dropped(probe):
    post(probe, "reference", pmt.intern("no PDU"))
    for t, (entries, reference) in enumerate(
        [(ENTRIES[:1], ENTRIES), (ENTRIES, 0 * ENTRIES), ([np.nan, 1.0], ENTRIES), ([np.inf, 1.0], ENTRIES)]
    ):
        send(probe, "entries", entries, round=t)
        send(probe, "reference", reference, round=t)
    send(probe, "entries", ENTRIES, round=9)
    send(probe, "reference", ENTRIES, round=9)
    assert [report["round"] for report in reports(probe, 1)] == [9]
    until(lambda: probe.dropped == 5)
