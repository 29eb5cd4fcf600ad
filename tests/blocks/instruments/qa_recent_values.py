# SPDX-License-Identifier: GPL-3.0-or-later
"""A window that moves by one item at a time."""

import numpy as np
import pytest
from gnuradio import blocks, gr
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.blocks.instruments.recent_values import recent_values
from tests.support.flowgraphs import run


def windows_of(items, values, at_once=8192):
    tb, sink = gr.top_block(), blocks.vector_sink_f(values)
    source, block = blocks.vector_source_f(items), recent_values(values)
    block.set_max_noutput_items(2 * at_once)
    tb.connect(source, block, sink)
    run(tb)
    pairs = np.array(sink.data(), np.float32).reshape(-1, 2, values)
    np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1])  # each comes twice
    return pairs[:, 0]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(2, 12), st.integers(1, 12))
def test_every_item_gives_the_last_ones_however_they_are_cut(n, values, at_once):
    items = np.random.default_rng(n).normal(size=n).astype(np.float32)
    found = windows_of(items.tolist(), values, at_once)
    assert len(found) == n
    for i, window in enumerate(found):
        expected = [items[max(i - values + 1 + j, 0)] for j in range(values)]
        np.testing.assert_array_equal(window, expected)


def test_begins_anew_when_the_flowgraph_does():
    tb, sink = gr.top_block(), blocks.vector_sink_f(2)
    source, block = blocks.vector_source_f([1.0, 2.0]), recent_values(2)
    tb.connect(source, block, sink)
    for _ in range(2):
        sink.reset()
        source.rewind()
        run(tb)
        assert list(sink.data()) == [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize("values", [1, 65_537, 1.5])
def test_bad_arguments_are_named(values):
    with pytest.raises(ValueError, match=f"values must be .*{values}"):
        recent_values(values)
