# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured rounds: a second receiver that resumes at one hears the same round, bit for bit."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.dsp.receive.tracking import SearchMark, Tracking
from tests.dsp.receive.server_rounds import K, acquire_round, assert_same, flushed, payload_round, small
from tests.support.signals import noise


def recorded(stream):
    stream.keep_captures()
    return stream


def heard_again(heard, layout, votes=K):
    """The round as a fresh receiver hears it out of the capture, and of what JSON keeps of the search's state."""
    capture = heard.capture
    kept = json.loads(json.dumps(dataclasses.asdict(capture.mark)))
    again = ServerStream(layout, votes, **json.loads(json.dumps(capture.settings)))
    again.resume(SearchMark(kept["sample"], Tracking(**kept["tracking"])))
    again.expect(heard.round, heard.kind, votes)
    return again.push(capture.samples) or flushed(again)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    chunk=st.sampled_from([100, 4096, 70_001]),
    kinds=st.lists(st.sampled_from(["payload", "acquire"]), min_size=2, max_size=4),
    answer_samples=st.sampled_from([300, 1500, 20_000]),
    wait=st.sampled_from([0, 3000, 60_000]),
    span_rows=st.sampled_from([1, 2, 16]),
)
def test_a_second_receiver_hears_the_same_bits(seed, chunk, kinds, answer_samples, wait, span_rows):
    rng = np.random.default_rng(seed)
    layout = small(3, answer_samples=answer_samples)
    stream = recorded(ServerStream(layout, K, span_rows=span_rows, early_samples=17, min_snr_db=-9.0))
    latency = stream.search.latency_samples
    for number, kind in enumerate(kinds):
        if kind == "payload":
            x = payload_round(layout, rng, rng.uniform(-3, 3, 3), [0, -3, -6])
        else:
            x = acquire_round(layout, rng, rng.uniform(-300, 300, 3), [0, -3, -6])
        pause = noise(wait, 0.01, rng).astype(np.complex64)
        stream.expect(number, kind)
        quiet = noise(latency + 2000, 0.01, rng).astype(np.complex64)
        x = np.concatenate((pause, x, quiet))
        heard = [one for i in range(0, len(x), chunk) for one in stream.push(x[i : i + chunk])]
        assert [(one.round, one.kind) for one in heard] == [(number, kind)]
        assert_same(heard_again(heard[0], layout), heard)
        # Enough for the search to begin as it did in the stream, however long the server waited for the trigger.
        end = layout.answer_at(heard[0].trigger_sample) + max(layout.frame(K).samples, layout.acquisition_samples)
        assert len(heard[0].capture.samples) < end - heard[0].trigger_sample + 3 * stream.search.span_samples + latency


def test_rounds_that_follow_at_once_do_not_hold_the_trigger_before():
    """All within one span of the search, so that the first trigger is in reach of the second capture."""
    rng = np.random.default_rng(3)
    layout = small(2, answer_samples=300)
    short = [payload_round(layout, rng, k=96, at=50.4)[:2500] for _ in range(3)]
    stream = recorded(ServerStream(layout, 96))
    heard = stream.push(np.concatenate((*short, np.zeros(stream.search.latency_samples, np.complex64))))
    assert [one.round for one in heard] == [0, 1, 2]
    for one in heard:
        assert_same(heard_again(one, layout, 96)[:1], [one])


def test_a_round_after_a_change_of_the_frequency_is_heard_as_it_was():
    """The search follows the last trigger's frequency; without what it remembers, a replay would search elsewhere."""
    rng = np.random.default_rng(4)
    layout = small(1)
    stream = recorded(ServerStream(layout, K, span_rows=2, max_cfo_rad=0.1))
    remembered = []
    for cfo in (0.08, 0.08, 0.07, 0.06):
        x = payload_round(layout, rng)
        x = (x * np.exp(1j * cfo * np.arange(len(x)))).astype(np.complex64)
        heard = stream.push(np.append(x, noise(3000, 0.01, rng).astype(np.complex64)))
        assert_same(heard_again(heard[0], layout), heard)
        remembered.append(heard[0].capture.mark.tracking.cfo_rad)
    assert remembered[0] is None
    assert remembered[1:] == pytest.approx([0.08, 0.08, 0.07], abs=1e-3)


@pytest.mark.parametrize("broken", [False, True])
def test_a_gap_ends_the_capture(broken):
    """A round that was given up has none, and the next one begins behind the gap."""
    rng = np.random.default_rng(5)
    layout = small(2)
    stream = recorded(ServerStream(layout, K, span_rows=2))
    x = payload_round(layout, rng)
    if broken:
        stream.push(x[:5000])
    given_up = stream.gap(50_000)
    assert [one.capture for one in given_up] == [None] * broken
    [heard] = stream.push(x)
    assert heard.capture.mark.sample == 50_000
    assert_same(heard_again(heard, layout), [heard])
    stream.reset()
    [heard] = stream.push(x)
    assert heard.capture.mark == SearchMark(0, Tracking())


@pytest.mark.parametrize("at", [0.1, 1.6])
def test_a_trigger_may_be_the_first_that_is_received(at):
    layout = small(2)
    stream = recorded(ServerStream(layout, K, span_rows=2))
    [heard] = stream.push(payload_round(layout, np.random.default_rng(7), at=100 + at)[100:])
    assert heard.trigger_sample == pytest.approx(at, abs=0.05)
    assert heard.capture.mark.sample == 0
    assert_same(heard_again(heard, layout), [heard])


def test_nothing_is_kept_unless_asked_for():
    rng = np.random.default_rng(6)
    [heard] = ServerStream(small(), K, span_rows=2).push(payload_round(small(), rng))
    assert heard.capture is None
