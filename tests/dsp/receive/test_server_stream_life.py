# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's stream over its life: counted rounds, gaps, bad samples, settings, bad arguments."""

import math

import numpy as np
import pytest

from oac_blocks.dsp import Numerology
from oac_blocks.dsp.preamble import TriggerSearch
from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from tests.dsp.receive.air_records import add_trigger
from tests.dsp.receive.server_rounds import (
    NUM,
    TRIGGER_AT,
    VECTORS,
    K,
    acquire_round,
    assert_same,
    flushed,
    only,
    payload_round,
    small,
)
from tests.support.signals import noise


def test_rounds_are_counted_on_and_the_latest_word_counts():
    rng = np.random.default_rng(8)
    layout = small(1)
    stream = ServerStream(layout, K, span_rows=2)

    def next_round(k=K):
        x = payload_round(layout, rng, k=k)
        return only(stream.push(np.append(x, noise(3000, 0.01, rng).astype(np.complex64))))

    assert next_round().round == 0
    assert next_round().round == 1
    stream.expect(9, "acquire")
    stream.expect(7)
    heard = next_round()
    assert (heard.round, heard.kind, len(heard.soft_votes)) == (7, "payload", K)
    stream.expect(20, "payload", 500)
    assert len(next_round(500).soft_votes) == 500
    stream.set_votes(300)
    heard = next_round(300)
    assert (heard.round, len(heard.soft_votes)) == (21, 300)
    stream.reset()
    assert next_round(300).round == 0


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_a_trigger_that_does_not_come_ends_the_round_after_so_many_samples(pieces):
    """By samples and not by seconds: however slowly they come, no round is given up early."""
    rng = np.random.default_rng(8)
    layout = small(2)
    stream = ServerStream(layout, K, span_rows=2, patience_samples=50_000)
    silence = noise(49_999, 0.01, rng).astype(np.complex64)
    stream.expect(4)
    assert [heard for piece in np.array_split(silence, pieces) for heard in stream.push(piece)] == []
    missed = only(stream.push(silence[:1]))
    assert (missed.round, missed.kind, missed.soft_votes) == (4, "payload", None)
    assert math.isnan(missed.trigger_sample)
    assert np.isnan(missed.offset_samples).all()
    stream.expect(5)
    x = payload_round(layout, rng)
    assert only(stream.push(np.append(x, noise(3000, 0.01, rng).astype(np.complex64)))).round == 5
    assert stream.push(silence) == []  # nothing is expected, so nothing is missed


def test_a_second_trigger_in_a_round_is_counted_and_ignored():
    rng = np.random.default_rng(9)
    layout = small(2)
    x = payload_round(layout, rng).astype(np.complex128)
    add_trigger(x, TRIGGER_AT + 700)
    stream = ServerStream(layout, K, span_rows=4)
    heard = only(stream.push(x.astype(np.complex64)) + flushed(stream))
    assert heard.trigger_sample == pytest.approx(TRIGGER_AT, abs=0.05)
    assert stream.ignored_triggers == 1
    assert np.isfinite(heard.offset_samples).all()


def test_a_round_that_the_end_of_the_stream_cuts_gives_nothing():
    rng = np.random.default_rng(10)
    layout = RoundLayout(NUM, 2, answer_samples=40_000)
    x = payload_round(layout, rng)
    end = round(TRIGGER_AT) + layout.answer_samples + layout.frame(K).samples
    stream = ServerStream(layout, K)
    assert stream.push(x[: end - 1]) == []
    assert len(stream.push(x[end - 1 : end])) == 1


def test_a_gap_gives_the_round_up_and_the_next_one_is_sound():
    rng = np.random.default_rng(11)
    layout = RoundLayout(NUM, 2, answer_samples=40_000)
    x = payload_round(layout, rng, [1, -2])
    stream = ServerStream(layout, K)
    assert stream.gap() == []
    assert stream.push(x[:30_000]) == []
    broken = only(stream.gap(at=100_000))
    assert (broken.round, broken.soft_votes) == (0, None)
    for name in VECTORS:
        assert np.isnan(getattr(broken, name)).all()
    heard = only(stream.push(x))
    assert heard.round == 1
    assert heard.trigger_sample == pytest.approx(100_000 + TRIGGER_AT, abs=0.05)
    np.testing.assert_allclose(heard.offset_samples, [1, -2], atol=0.05)


def test_bad_samples_are_silence_and_counted():
    rng = np.random.default_rng(12)
    layout = RoundLayout(NUM, 2, answer_samples=40_000)
    x = payload_round(layout, rng)
    bad = [100, 20_000, 41_000, 42_000]
    clean, dirty = x.copy(), x.copy()
    clean[bad] = 0
    dirty[bad] = np.nan, np.inf, complex(1, -np.inf), 3e38
    streams = ServerStream(layout, K), ServerStream(layout, K)
    with np.errstate(all="raise"):
        assert_same(streams[0].push(dirty), streams[1].push(clean))
    assert (streams[0].bad_samples, streams[1].bad_samples) == (4, 0)


def test_noiseless_rounds_and_a_level_of_any_height():
    rng = np.random.default_rng(13)
    layout = small(3)
    x = payload_round(layout, rng, [1.25, -2.5, 0.0], noise_power=0.0)
    for level in (1e-5, 1.0, 1e5):
        stream = ServerStream(layout, K)
        heard = only(stream.push(np.float32(level) * x) + flushed(stream))
        np.testing.assert_allclose(heard.offset_samples, [1.25, -2.5, 0], atol=2e-3)
        np.testing.assert_allclose(heard.power_db, 20 * math.log10(level), atol=0.01)
    silent = payload_round(layout, rng, None, [-np.inf] * 3, noise_power=0.0)
    stream = ServerStream(layout, K)
    heard = only(stream.push(silent) + flushed(stream))
    assert np.isnan(heard.offset_samples).all()
    assert math.isnan(heard.mean_snr_db)


def test_settings_apply_while_it_runs():
    rng = np.random.default_rng(14)
    layout = small(2)
    x = payload_round(layout, rng, [0, 0], [0.0, -27.0], noise_power=0.03)
    x = np.append(x, noise(3000, 0.03, rng).astype(np.complex64))
    stream = ServerStream(layout, K, span_rows=2)
    before = only(stream.push(x))
    assert np.isfinite(before.offset_samples).all()
    stream.set_early_samples(0)
    stream.set_false_alarm_per_client(1e-15)
    after = only(stream.push(x))
    np.testing.assert_array_equal(np.isfinite(after.offset_samples), [True, False])
    assert not np.array_equal(before.soft_votes, after.soft_votes)


@pytest.mark.parametrize("to", [5000, 7333])
def test_a_search_that_skips_finds_what_begins_behind_the_gap(to):
    """Sample for sample like a search that begins there, but for the count."""
    rng = np.random.default_rng(15)
    x = noise(40_000, 0.1, rng)
    for at in (1000.2, to - 200.0, to + 3.4, 20_000.6):
        add_trigger(x, at)
    x = x.astype(np.complex64)
    search, fresh = TriggerSearch(span_rows=2, tracking=False), TriggerSearch(span_rows=2, tracking=False)
    assert [d.sample for d in search.push(x[:4200])] == [1000]
    search.skip_to(to)
    found, expected = search.push(x[to:]), fresh.push(x[to:])
    assert [round(d.time_samples, 1) for d in found] == pytest.approx([to + 3.4, 20_000.6], abs=0.15)
    np.testing.assert_allclose([d.time_samples for d in found], [to + d.time_samples for d in expected], rtol=1e-12)
    assert [d.cfo_rad_per_sample for d in found] == [d.cfo_rad_per_sample for d in expected]


def test_a_search_says_how_much_it_wants():
    rng = np.random.default_rng(16)
    x = noise(30_000, 0.1, rng).astype(np.complex64)
    search = TriggerSearch(span_rows=2)
    begin = 0
    while begin < len(x):
        wanted = search.wanted_samples
        assert wanted > 0
        search.push(x[begin : begin + wanted - 1])
        assert search.wanted_samples == 1 or begin + wanted - 1 > len(x)
        search.push(x[begin + wanted - 1 : begin + wanted])
        begin += wanted


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"votes": 0}, "votes"),
        ({"early_samples": 65}, "early_samples"),
        ({"false_alarm_per_sample": 1.0}, "false_alarm_per_sample"),
        ({"false_alarm_per_client": 0.0}, "false_alarm_per_client"),
        ({"max_cfo_rad": -1.0}, "max_cfo_rad"),
        ({"lost_after_samples": 0}, "lost_after_samples"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        ServerStream(small(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "name"), [((-1,), "round"), (("1",), "round"), ((1, "pause"), "kind"), ((1, "payload", 0), "votes")]
)
def test_a_bad_expectation_is_named_and_changes_nothing(arguments, name):
    stream = ServerStream(small(1), K)
    stream.expect(5)
    with pytest.raises(ValueError, match=rf"{name} must be"):
        stream.expect(*arguments)
    x = payload_round(small(1), np.random.default_rng(17))
    assert only(stream.push(x) + flushed(stream)).round == 5


@pytest.mark.parametrize(
    ("num", "clients"),
    [
        (Numerology(fft_size=64, cp_samples=16, active_subcarriers=48, dc_nulls=4), 3),
        (Numerology(fft_size=128, cp_samples=128, active_subcarriers=128, dc_nulls=0), 2),
        (Numerology(fft_size=1024, cp_samples=72, active_subcarriers=600, dc_nulls=2), 4),
    ],
)
@pytest.mark.parametrize(("groups", "k"), [(1, 40), (5, 700)])
def test_other_numerologies(num, clients, groups, k):
    rng = np.random.default_rng([18, num.fft_size, groups])
    layout = RoundLayout(num, clients, groups=groups, answer_samples=2000, slot_samples=6 * num.symbol_samples)
    offsets = rng.uniform(-1, 1, clients)
    stream = ServerStream(layout, k)
    x = payload_round(layout, rng, offsets, noise_power=1e-3, k=k)
    heard = only(stream.push(x) + flushed(stream))
    # Neighbouring symbols reach into one another where the prefix is short: sharp bursts between the samples.
    np.testing.assert_allclose(heard.offset_samples, offsets, atol=0.15)
    assert np.isfinite(heard.cfo_rad).all() == (layout.frame(k).groups > 1)
    stream.expect(1, "acquire")
    heard = only(stream.push(acquire_round(layout, rng, offsets, np.zeros(clients))) + flushed(stream))
    np.testing.assert_allclose(heard.offset_samples, offsets, atol=0.15)
