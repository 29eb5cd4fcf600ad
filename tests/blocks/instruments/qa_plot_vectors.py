# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks that turn PDUs into vectors for a plot: recent_histogram against NumPy, first_values against what was sent."""

import numpy as np
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.instruments.first_values import first_values
from oac_blocks.blocks.instruments.recent_histogram import recent_histogram
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import post, running
from tests.support.polling import until


def vectors_of(block, length, messages, wanted):
    """The vectors that come of these messages, each once."""
    tb, sink = gr.top_block(), blocks.vector_sink_f(length)
    tb.connect(block, sink)
    with running(tb):
        for message in messages:
            post(block, "pdus", message)
        until(lambda: len(sink.data()) >= 2 * wanted * length)
    pairs = np.array(sink.data(), np.float32).reshape(-1, 2, length)
    np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1])
    assert len(pairs) == wanted
    return pairs[:, 0]


def test_a_histogram_goes_over_the_last_pdus_alone():
    rng = np.random.default_rng(1)
    bursts = [rng.normal(mean, 1, 500).astype(np.float32) for mean in (-3, -3, 0, 0, 0, 3, 3)]
    found = vectors_of(recent_histogram(40, -6, 6, window=3), 40, map(pdus.make, bursts), len(bursts))
    for t, shares in enumerate(found):
        recent = np.concatenate(bursts[max(0, t - 2) : t + 1])
        np.testing.assert_allclose(shares, np.histogram(recent, 40, (-6, 6))[0] / len(recent), rtol=1e-6)


def test_the_window_of_a_histogram_can_be_changed_while_it_runs():
    block = recent_histogram(2, -1, 1, window=10)
    below, above = pdus.make(np.float32([-0.5])), pdus.make(np.float32([0.5]))
    tb, sink = gr.top_block(), blocks.null_sink(8)
    tb.connect(block, sink)
    with running(tb):
        for message in (below, below, above):
            post(block, "pdus", message)
        until(lambda: block.last is not None and block.last[1] > 0)
        np.testing.assert_allclose(block.last, [2 / 3, 1 / 3], rtol=1e-6)
        block.set_window(1)
        post(block, "pdus", above)
        until(lambda: block.last[1] == 1)


def test_values_outside_the_range_count_in_the_total():
    (shares,) = vectors_of(recent_histogram(2, 0, 1), 2, [pdus.make(np.float32([0.1, 0.9, 7, -7]))], 1)
    np.testing.assert_array_equal(shares, [0.25, 0.25])


def test_the_first_values_of_each_pdu():
    bursts = [np.arange(5, dtype=np.float32) + 10 * t for t in range(6)]
    found = vectors_of(first_values(3), 3, map(pdus.make, bursts), len(bursts))
    np.testing.assert_array_equal(found, [burst[:3] for burst in bursts])


@pytest.mark.parametrize(
    ("block", "bad"),
    [
        (first_values(3), [pdus.make(np.ones(2, np.float32)), pdus.make(np.ones(9, np.int8)), pdus.to_dict({})]),
        (recent_histogram(3), [pdus.make(np.float32([np.nan, 1])), pdus.make(np.ones(9, np.complex64))]),
    ],
)
def test_what_cannot_be_used_is_counted_and_spoils_nothing(block, bad):
    vectors_of(block, 3, [*bad, pdus.make(np.ones(3, np.float32))], 1)
    assert block.dropped == len(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: first_values(1), "values must be .*1"),
        (lambda: recent_histogram(1), "bins must be .*1"),
        (lambda: recent_histogram(low=2, high=2), "low must be less than high = 2.0, got 2.0"),
        (lambda: recent_histogram(window=0), "window must be .*0"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
