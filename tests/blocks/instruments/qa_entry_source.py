# SPDX-License-Identifier: GPL-3.0-or-later
"""Gaussian entries at a pace and on request, the same for the same seed."""

import time

import numpy as np
import pmt
import pytest
from gnuradio import gr

from oac_blocks.blocks.instruments.entry_source import entry_source
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until


def entries_of(source, pdus):
    tb = gr.top_block()
    sent = Messages(tb, source, "entries")
    with running(tb):
        for _ in range(pdus):
            post(source._sender, "next", pmt.PMT_T)
        until(lambda: len(sent) == pdus)
    return sent.pdus(np.float32)


def test_entries_have_their_rms_and_rounds_count_up():
    found = entries_of(entry_source(10_000, period_ms=0, rms=0.3), 3)
    assert [pmt.to_python(pdu.metadata["round"]) for pdu in found] == [0, 1, 2]
    entries = np.concatenate([pdu.data for pdu in found])
    # The mean square of n Gaussian values has a standard error of sqrt(2 / n) of itself.
    assert abs(np.mean(entries**2) / 0.09 - 1) < 4 * np.sqrt(2 / len(entries))


def test_same_seed_gives_the_same_entries_and_setters_work():
    sources = [entry_source(1, period_ms=0, seed=seed) for seed in (3, 3, 4)]
    for source in sources:
        source.set_k(50)
        source.set_rms(2.0)
    first, again, other = (entries_of(source, 1)[0].data for source in sources)
    assert len(first) == 50
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_entries_come_at_their_pace():
    """None without a period; with one, never faster than it says, however busy the machine is."""
    source = entry_source(10, period_ms=0)
    tb = gr.top_block()
    sent = Messages(tb, source, "entries")
    with running(tb):
        post(source._sender, "next", pmt.PMT_T)
        until(lambda: len(sent) == 1)
        begun, period_ms = time.monotonic(), 10
        source.set_period_ms(period_ms)
        until(lambda: len(sent) >= 21)
        assert time.monotonic() - begun >= 19 * period_ms / 1000
        begun, before = time.monotonic(), len(sent)
        source.set_period_ms(10 * period_ms)
        until(lambda: len(sent) >= before + 4)
        assert time.monotonic() - begun >= 2 * 10 * period_ms / 1000  # one pause may still be a short one


@pytest.mark.parametrize("arguments", [{"k": 0}, {"period_ms": -1}, {"rms": 0}, {"seed": -1}])
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        entry_source(**arguments)
