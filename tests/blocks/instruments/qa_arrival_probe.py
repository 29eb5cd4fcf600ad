# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server measured of each client, as streams that a plot can show."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.instruments.arrival_probe import QUANTITIES, arrival_probe
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import post, running
from tests.support.polling import until

NAN = float("nan")


def vector(values):
    return pmt.init_f64vector(len(values), list(values))


def send(probe, number, **quantities):
    post(probe, "arrivals", pdus.notice({"round": number, **{n: vector(v) for n, v in quantities.items()}}))


@pytest.fixture
def probe():
    block = arrival_probe(3)
    tb = gr.top_block()
    block.streams = [blocks.vector_sink_f() for _ in range(3)]
    for client, sink in enumerate(block.streams):
        tb.connect((block, client), sink)
    with running(tb):
        yield block


def rounds(probe, n):
    """One row a round, one column a client."""
    until(lambda: all(len(sink.data()) >= n for sink in probe.streams))
    table = np.array([sink.data() for sink in probe.streams]).T
    assert len(table) == n
    return table


def test_one_stream_a_client_one_item_a_round(probe):
    sent = np.random.default_rng(1).normal(0, 10, (500, 3))
    for number, offsets in enumerate(sent):
        send(probe, number, offset_samples=offsets, power_db=offsets + 100)
    np.testing.assert_array_equal(rounds(probe, 500), sent.astype(np.float32))
    assert probe.last == tuple(sent[-1].astype(np.float32).tolist())
    assert probe.dropped == 0


def test_who_was_not_heard_keeps_the_last_value(probe):
    for number, offsets in enumerate([(NAN, 1.5, NAN), (2.0, NAN, NAN), (NAN, NAN, -3.0)]):
        send(probe, number, offset_samples=offsets)
    assert rounds(probe, 3).tolist() == [[0.0, 1.5, 0.0], [2.0, 1.5, 0.0], [2.0, 1.5, -3.0]]


def test_quantity_can_be_changed_while_it_runs(probe):
    values = {name: [float(i), 10.0 + i, 20.0 + i] for i, name in enumerate(QUANTITIES)}
    for number, name in enumerate(QUANTITIES):
        probe.set_quantity(name)
        send(probe, number, **values)
        rounds(probe, number + 1)
    assert rounds(probe, len(QUANTITIES)).tolist() == [values[name] for name in QUANTITIES]


def test_another_quantity_does_not_begin_with_the_last_one_s_value(probe):
    send(probe, 0, offset_samples=[5.0, 6.0, 7.0])
    rounds(probe, 1)
    probe.set_quantity("power_db")
    send(probe, 1, power_db=[NAN, -1.0, NAN])
    assert rounds(probe, 2)[1].tolist() == [0.0, -1.0, 0.0]


def test_what_cannot_be_used_is_counted_and_spoils_nothing(probe):
    post(probe, "arrivals", pmt.intern("no PDU"))
    post(probe, "arrivals", pdus.notice({"round": 0}))
    send(probe, 1, power_db=[1.0, 2.0, 3.0])  # not what is asked for
    send(probe, 2, offset_samples=[1.0, 2.0])  # of another number of clients
    post(probe, "arrivals", pdus.notice({"round": 3, "offset_samples": "late"}))
    send(probe, 4, offset_samples=[1.0, 2.0, 3.0])
    assert rounds(probe, 1).tolist() == [[1.0, 2.0, 3.0]]
    until(lambda: probe.dropped == 5)


def test_values_that_nobody_fetches_do_not_pile_up():
    """Not running, nothing leaves it: the newest 4,096 rounds are kept."""
    probe = arrival_probe(1)
    for number in range(5000):
        probe._on_arrivals(pdus.notice({"round": number, "offset_samples": vector([float(number)])}))
    tb, sink = gr.top_block(), blocks.vector_sink_f()
    tb.connect(probe, sink)
    with running(tb):
        until(lambda: len(sink.data()) >= 4096)
    assert list(sink.data()) == list(range(5000 - 4096, 5000))


@pytest.mark.parametrize("arguments", [{"clients": 0}, {"clients": 65}, {"quantity": "mood"}])
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        arrival_probe(**arguments)
    if name == "quantity":
        with pytest.raises(ValueError, match=f"{name} must be .*{value}"):
            arrival_probe().set_quantity(value)
