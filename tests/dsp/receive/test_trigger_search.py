# SPDX-License-Identifier: GPL-3.0-or-later
"""Triggers in a stream: each once, however the stream is cut, and as on the whole record."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import bounds, preamble
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from tests.support.signals import noise

TRIGGER = preamble.trigger()


def stream(times, cfos, snr_db, length, rng):
    """White noise of power 1 with triggers at fractional times, each with its own frequency and a random phase."""
    x = np.sqrt(0.5) * rng.standard_normal((length, 2)).view(np.complex128)[:, 0]
    padded = np.pad(TRIGGER, 64)
    frequency = np.fft.fftfreq(len(padded))
    for arrival, cfo, db in np.broadcast(times, cfos, snr_db):
        first = math.floor(arrival)
        moved = np.fft.ifft(np.fft.fft(padded) * np.exp(-2j * np.pi * frequency * (arrival - first)))
        moved *= 10 ** (db / 20) * np.exp(1j * (cfo * np.arange(len(padded)) + 2 * np.pi * rng.random()))
        begin, stop = max(first - 64, 0), min(first - 64 + len(padded), length)
        x[begin:stop] += moved[begin - (first - 64) : stop - (first - 64)]
    return x.astype(np.complex64)


def pushed(search, x, sizes):
    """All detections, the stream cut into pieces of these sizes, over and over."""
    found, begin = [], 0
    for size in itertools.cycle(sizes):
        if begin >= len(x):
            return found
        found += search.push(x[begin : begin + size])
        begin += size


def assert_alike(found, expected, samples=1e-3):
    assert len(found) == len(expected)
    np.testing.assert_allclose([d.time_samples for d in found], [d.time_samples for d in expected], atol=samples)
    cfos = [[d.cfo_rad_per_sample for d in some] for some in (found, expected)]
    np.testing.assert_allclose(*cfos, atol=1e-5)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=6).filter(lambda sizes: max(sizes) > 300),
    tracking=st.booleans(),
    span_rows=st.sampled_from([1, 2, 16]),
)
def test_any_cut_finds_what_the_whole_record_shows(seed, sizes, tracking, span_rows):
    rng = np.random.default_rng(seed)
    search = TriggerSearch(tracking=tracking, span_rows=span_rows)
    times = 20 + np.cumsum(rng.uniform(300, 12_000, 12))
    length = int(times[-1]) + 300 + search.latency_samples
    x = stream(times, rng.uniform(-0.15, 0.15), rng.uniform(0, 20, len(times)), length, rng)
    expected = preamble.find_triggers(x)
    assert len(expected) == len(times)
    assert_alike(pushed(search, x, sizes), expected)


@pytest.mark.parametrize("tracking", [False, True])
def test_no_span_border_hides_or_doubles_a_trigger(tracking):
    """Spans of 769 samples and a trigger every 801 + 1/8: the borders pass over each part of it."""
    search = TriggerSearch(tracking=tracking, span_rows=1)
    times = 50 + 801.125 * np.arange(120)
    x = stream(times, 0.02, 3.0, int(times[-1]) + 5000, np.random.default_rng(1))
    found = search.push(x)
    assert len(found) == len(times)
    np.testing.assert_allclose([d.time_samples for d in found], times, atol=0.5)
    assert_alike(found, preamble.find_triggers(x))


def test_cutting_the_stream_changes_no_bit():
    rng = np.random.default_rng(2)
    x = stream(3000 + 9000.3 * np.arange(10), -0.07, -3.0, 140_000, rng)
    whole = TriggerSearch().push(x)
    assert len(whole) == 10
    assert pushed(TriggerSearch(), x, [65_536]) == whole
    assert pushed(TriggerSearch(), x, rng.integers(1, 5000, 50)) == whole


def test_crowded_triggers_are_all_found():
    """Back to back for longer than the search looks ahead: their side peaks leave no gap between them."""
    times = 500.0 + 300 * np.arange(40)
    x = stream(times, 0.0, 20.0, 40_000, np.random.default_rng(3))
    found = TriggerSearch(span_rows=2).push(x)
    np.testing.assert_allclose([d.time_samples for d in found], times, atol=0.05)


@pytest.mark.parametrize("span_rows", [1, 4])
def test_latency_is_kept(span_rows):
    rng = np.random.default_rng(4)
    latency = TriggerSearch(span_rows=span_rows).latency_samples
    for first in range(1000, 1000 + latency, 97):
        x = stream([first], 0.0, 10.0, first + latency + 1, rng)
        assert len(TriggerSearch(span_rows=span_rows).push(x)) == 1


@pytest.mark.parametrize("cut", [40, 64, 100, 128, 192, 250])
def test_a_trigger_cut_by_the_streams_start_is_not_reported(cut):
    x = stream([500.0], 0.03, 20.0, 30_000, np.random.default_rng(5))
    assert TriggerSearch().push(x[500 + cut :]) == []


def test_a_trigger_on_the_very_first_sample_is_found():
    x = stream([0.0], 0.03, 20.0, 30_000, np.random.default_rng(5))
    (found,) = TriggerSearch().push(x)
    assert found.time_samples == pytest.approx(0, abs=0.05)


def test_tracking_follows_a_drift_and_returns_to_the_bank_when_lost():
    rng = np.random.default_rng(6)
    times = 2000 + 20_000 * np.arange(20)
    drift = np.linspace(0.05, 0.1, len(times))
    search = TriggerSearch(lost_after_samples=100_000)
    assert search.tracked_cfo_rad is None
    found = search.push(stream(times, drift, 10.0, 420_000, rng))
    np.testing.assert_allclose([d.cfo_rad_per_sample for d in found], drift, atol=5e-3)
    assert search.tracked_cfo_rad == pytest.approx(drift[-1], abs=0.01)
    # Another radio, far off: heard only once the first is given up.
    late = stream(times, -0.15, 10.0, 420_000, rng)
    again = search.push(late)
    assert search.tracked_cfo_rad == pytest.approx(-0.15, abs=0.01)
    heard = [d.time_samples - 420_000 for d in again]
    np.testing.assert_allclose(heard, times[-len(heard) :], atol=0.5)
    assert 14 <= len(heard) <= 17  # 100,000 samples without a hit hold five triggers


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
@pytest.mark.parametrize("jump", [0.2, 0.29])
def test_a_side_peak_after_a_jump_of_the_frequency_is_not_tracked(jump, snr_db):
    """The tracked frequency may catch one; the bank is then asked again, and the next triggers are found."""
    before, after, distance = 4, 8, 20_000
    times = 3000 + distance * np.arange(before + after)
    cfos = np.where(np.arange(before + after) < before, -0.157, -0.157 + jump)
    x = stream(times, cfos, snr_db, distance * (before + after), np.random.default_rng(29))
    found = TriggerSearch(span_rows=8, lost_after_samples=3 * distance).push(x)
    for arrival, cfo in zip(times[-3:], cfos[-3:], strict=True):
        near = [d for d in found if abs(d.time_samples - arrival) < 1]
        assert len(near) == 1
        assert near[0].cfo_rad_per_sample == pytest.approx(cfo, abs=0.005)


def test_a_false_alarm_does_not_turn_the_search_away():
    rng = np.random.default_rng(11)
    search = TriggerSearch(1e-3, -100.0)
    search.push(stream([2000.0], 0.1, 10.0, 20_000, rng))
    assert len(search.push(stream([], [], [], 300_000, rng))) > 10
    assert search.tracked_cfo_rad == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("distance", [20_000, 100_000])
def test_payload_that_is_taken_for_a_trigger_does_not_make_the_search_deaf(distance):
    """Two weak ones, the first at the tracked frequency and the second at another one: the next triggers are found."""
    cfos = np.array([0.1, 0.1, 0.1, 0.1, -0.1, 0.1, 0.1, 0.1])
    levels_db = np.array([15.0, 15.0, 15.0, -6.0, -6.0, 15.0, 15.0, 15.0])
    times = 3000 + distance * np.arange(len(cfos))
    x = stream(times, cfos, levels_db, distance * len(cfos), np.random.default_rng(31))
    found = np.array([d.time_samples for d in TriggerSearch(span_rows=4).push(x)])
    for arrival in times:
        assert np.count_nonzero(np.abs(found - arrival) < 1) == 1


def test_a_trigger_that_has_become_faint_is_tracked_after_a_few_hits():
    times = 3000 + 20_000 * np.arange(16)
    cfos, levels_db = np.repeat([0.1, -0.1], 8), np.repeat([20.0, 3.0], 8)
    search = TriggerSearch(span_rows=4, lost_after_samples=30_000)
    search.push(stream(times, cfos, levels_db, 330_000, np.random.default_rng(32)))
    assert search.tracked_cfo_rad == pytest.approx(-0.1, abs=0.005)


def test_settings_apply_in_the_middle_of_a_stream():
    rng = np.random.default_rng(7)
    x = stream(2000 + 20_000 * np.arange(4), 0.1, -5.0, 100_000, rng)
    search = TriggerSearch(tracking=False)
    assert len(search.push(x)) == 4
    assert search.tracked_cfo_rad is None
    search.set_min_snr_db(0.0)
    assert search.push(x) == []
    search.set_min_snr_db(-9.0)
    search.set_tracking(True)
    assert len(search.push(x)) == 4
    assert search.tracked_cfo_rad == pytest.approx(0.1, abs=0.01)
    search.set_tracking(False)
    search.push(x)
    assert search.tracked_cfo_rad is None
    search.reset()
    assert search.push(x)[0].time_samples == pytest.approx(2000, abs=0.5)


def test_false_alarms_are_no_more_than_asked_for():
    """Neighbouring samples share their noise, and one event is reported once: fewer than the union bound, not none."""
    rng = np.random.default_rng(8)
    search, samples, rate = TriggerSearch(1e-4, -100.0, tracking=False), 1_000_000, 1e-4
    found = search.push(stream([], [], [], samples, rng))
    expected = rate * samples
    assert 0.1 * expected < len(found) < expected + 3 * math.sqrt(expected)


@pytest.mark.parametrize("cfo", [0.0, 0.075, 0.12, 0.125, 0.15])
def test_all_are_found_at_minus_5_db_and_timed_to_the_bound(cfo):
    rng = np.random.default_rng(9)
    times = 1000 + 1500 * np.arange(200) + rng.random(200)
    found = TriggerSearch().push(stream(times, cfo, -5.0, 330_000, rng))
    assert len(found) == len(times)
    error = np.array([d.time_samples for d in found]) - times
    bound = math.sqrt(bounds.joint_crlb(TRIGGER, 10**-0.5)[0])
    # The RMS of 200 errors is itself known to 1 / sqrt(400) = 5 %.
    assert np.sqrt(np.mean(error**2)) < 1.15 * bound * 1.15


def test_silence_and_noiseless_triggers_give_no_false_ones():
    x = np.zeros(200_000, np.complex64)
    x[100_000 : 100_000 + len(TRIGGER)] = 0.3 * TRIGGER
    (found,) = TriggerSearch().push(x)
    assert found.time_samples == pytest.approx(100_000, abs=1e-3)
    assert TriggerSearch().push(np.zeros(100_000, np.complex64)) == []


@pytest.mark.parametrize("carrier_rad", [0.0, 0.3, 1.0])
def test_a_strong_carrier_neither_triggers_nor_stops_the_search(carrier_rad):
    """A radio's own LO leaks; a carrier alone holds the gate at 0.25 for good."""
    n = np.arange(300_000)
    x = np.exp(1j * carrier_rad * n)
    x[200_000 : 200_000 + len(TRIGGER)] += TRIGGER
    search, plain = TriggerSearch(1e-5), TriggerSearch(1e-5)
    begin = time.thread_time()
    plain.push(noise(len(x), 1.0, np.random.default_rng(1)).astype(np.complex64))
    middle = time.thread_time()
    (found,) = search.push(x.astype(np.complex64))
    # About as long as noise takes; hundreds of times as long where all that is open is looked at.
    assert time.thread_time() - middle < 30 * (middle - begin)
    assert found.time_samples == pytest.approx(200_000, abs=0.5)


def test_bad_samples_are_counted_and_taken_as_silence():
    rng = np.random.default_rng(10)
    times = 2000 + 20_000 * np.arange(5)
    x = stream(times, 0.0, 10.0, 120_000, rng)
    x[[10_000, 30_000, 50_000]] = np.nan, np.inf, 3e38
    search = TriggerSearch()
    found = search.push(x)
    assert search.bad_samples == 3
    np.testing.assert_allclose([d.time_samples for d in found], times, atol=0.2)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"false_alarm_per_sample": 0.0}, "false_alarm_per_sample"),
        ({"min_snr_db": math.nan}, "min_snr_db"),
        ({"cfo_bank_rad": ()}, "cfo_bank_rad"),
        ({"cfo_bank_rad": (4.0,)}, "cfo_bank_rad"),
        ({"lost_after_samples": 0}, "lost_after_samples"),
        ({"span_rows": 0}, "span_rows"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        TriggerSearch(**arguments)


@pytest.mark.parametrize("x", [np.zeros((2, 2), np.complex64), np.zeros(5), np.zeros(5, np.complex128)])
def test_push_refuses_what_is_no_stream_of_complex64(x):
    with pytest.raises(ValueError, match="samples"):
        TriggerSearch().push(x)
