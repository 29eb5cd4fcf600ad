# SPDX-License-Identifier: GPL-3.0-or-later
"""The channel for streams, against the channel for bursts, the exact resampler, and itself with other cuts."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.channel.multiple_access import Link, Receiver, transmit
from oac_blocks.dsp.channel.resampling import HOP, resample_exact
from oac_blocks.dsp.channel.streaming_channel import StreamingChannel
from tests.support.signals import error_db

NUM = Numerology()
RATE = NUM.sample_rate_hz
PROFILE = DelayProfile((0.0, 5 / RATE, 130 / RATE), (0.0, -3.0, -6.0))


def streams(clients, symbols=100, seed=0):
    rng = np.random.default_rng(seed)
    votes = rng.choice(np.array([-1, 1], np.int8), (clients, 96 * symbols))
    return ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)


def small(links, receiver=None, seed=1, **kwargs):
    """A channel of little latency, so that short records pass through it."""
    kwargs = {"max_delay_samples": 512, "max_drift_samples": 512} | kwargs
    return StreamingChannel(links, receiver or Receiver(), RATE, seed, **kwargs)


def through(channel, x):
    """The whole record and what the latency keeps back, the latency taken off."""
    tail = np.zeros((len(x), channel.latency_samples), np.complex64)
    return channel.push(np.concatenate((x, tail), axis=1))[channel.latency_samples :]


BUSY = [
    Link(clock_ppm=300.0, clock_walk_ppm=20.0, fading="rayleigh", profile=PROFILE, cfo_hz=1234.5, delay_samples=7.3),
    Link(gain_db=-3.0, clock_ppm=-800.0, clock_walk_ppm=900.0, fading="rician", stream_offset_samples=-40),
    Link(delay_samples=100.0, cfo_hz=-500.0, clock_walk_ppm=5.0),
    Link(gain_db=3.0),
]
# Loud, silent, and short in between: whatever silence saves must not show.
BUSY_RECORD = streams(4, symbols=80)
BUSY_RECORD[:3, 6000:15_000] = 0
BUSY_RECORD[1:3, 11_000:11_100] = 1
BUSY_RECEIVER = Receiver(snr_db=20.0, noise_alpha=1.7)


def busy_channel():
    return small(BUSY, BUSY_RECEIVER, coherence_samples=3000, max_drift_samples=16)


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, BUSY_RECORD.shape[1]), max_size=12))
def test_how_the_stream_is_cut_changes_nothing(cuts):
    """All impairments at once, walking clocks, redrawn fading and slips included."""
    whole = busy_channel()
    expected = whole.push(BUSY_RECORD)
    channel = busy_channel()
    pieces = [channel.push(piece) for piece in np.split(BUSY_RECORD, sorted(cuts), axis=1)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)
    assert channel.slips == whole.slips
    assert whole.slips[1] > 0
    assert channel.clock_ppm == whole.clock_ppm


@pytest.mark.parametrize("size", [1, 100, HOP, 4096])
def test_chunks_of_one_size_change_nothing(size):
    x = BUSY_RECORD[:, :6000]
    channel = busy_channel()
    pieces = [channel.push(x[:, i : i + size]) for i in range(0, x.shape[1], size)]
    np.testing.assert_array_equal(np.concatenate(pieces), busy_channel().push(x))


def test_a_plain_channel_is_a_delay_to_the_bit():
    x = streams(3)
    offsets = (0, 7, -100)
    channel = small([Link(stream_offset_samples=offset) for offset in offsets])
    y = through(channel, x)
    expected = sum(np.concatenate((np.zeros(100, np.complex64), row, np.zeros(200, np.complex64)))[100 - o :][: len(y)]
                   for row, o in zip(x, offsets, strict=True))  # fmt: skip
    np.testing.assert_array_equal(y, expected)


def test_the_latency_is_the_stated_one():
    channel = small([Link()])
    impulse = np.zeros((1, channel.latency_samples + 10), np.complex64)
    impulse[0, 3] = 1
    assert np.flatnonzero(channel.push(impulse)).tolist() == [channel.latency_samples + 3]


@pytest.mark.parametrize(
    ("ppm", "delay", "offset"),
    [(0.0, 0.5, 0), (0.0, -3.3, 0), (20.0, 0.0, 0), (-20.0, 3.3, 10), (500.0, 2.25, 300), (-1000.0, 0.0, -50)],
)
def test_against_the_exact_resampler(ppm, delay, offset):
    x = streams(1)
    channel = small([Link(clock_ppm=ppm, delay_samples=delay, stream_offset_samples=offset)])
    y = through(channel, x)
    positions = (np.arange(len(y)) - offset - delay) * (1 + ppm * 1e-6)
    assert error_db(y, resample_exact(x[0], positions)) < -50


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_whole_buffer_is_of_use(sign):
    """The largest delay and the largest drift together, chunk by chunk: late and slow, early and fast."""
    x = streams(1, symbols=180)
    channel = small([Link(clock_ppm=-sign * 1000.0, delay_samples=sign * 512.0)], max_drift_samples=60)
    y = np.concatenate([channel.push(x[:, i : i + 1000]) for i in range(0, x.shape[1], 1000)])[
        channel.latency_samples :
    ]
    assert channel.slips == (0,)
    assert abs(channel.drift_samples[0]) > 52
    positions = (np.arange(len(y)) - sign * 512) * (1 - sign * 1e-3)
    assert error_db(y, resample_exact(x[0], positions)) < -50


def test_a_static_channel_is_that_of_bursts():
    x = streams(2)
    links = [
        Link(clock_ppm=20.0, delay_samples=3.7, cfo_hz=2000.0, profile=PROFILE, gain_db=-2.0),
        Link(clock_ppm=-20.0, stream_offset_samples=60, cfo_hz=-700.0, profile="epa"),
    ]
    channel = small(links)
    y = through(channel, x)
    expected = transmit(x, links, Receiver(), RATE, np.random.default_rng(1), len(y)).samples
    assert error_db(y, expected) < -50


def test_noise_and_converter_are_the_receivers():
    receiver = Receiver(snr_db=7.0, adc_bits=6, adc_full_scale=2.0)
    channel = small([Link()], receiver)
    y = through(channel, np.zeros((1, 100_000), np.complex64))
    steps = y.view(np.float32) / (2.0 / 32)
    np.testing.assert_array_equal(steps, np.rint(steps))
    step_power = 2 * (2.0 / 32) ** 2 / 12
    # The power of n samples has a standard deviation of 1 / sqrt(n).
    assert np.mean(np.abs(y) ** 2) == pytest.approx(10**-0.7 + step_power, rel=5 / np.sqrt(len(y)))


def test_fading_changes_at_the_coherence_length_and_has_power_one():
    coherence, intervals = 64, 4000
    channel = small([Link(fading="rayleigh")], coherence_samples=coherence)
    y = through(channel, np.ones((1, coherence * intervals), np.complex64)).reshape(intervals, coherence)
    np.testing.assert_array_equal(y, np.repeat(y[:, :1], coherence, axis=1))
    assert len(np.unique(y[:, 0])) == intervals
    assert np.mean(np.abs(y[:, 0]) ** 2) == pytest.approx(1, abs=5 / np.sqrt(intervals))


def test_fading_stays_until_a_redraw_is_asked_for():
    channel = small([Link(fading="rayleigh"), Link(fading="rician", gain_db=-200.0)])
    chunk = np.ones((2, 10 * HOP), np.complex64)
    channel.push(chunk)
    first = channel.push(chunk)
    assert len(np.unique(first)) == 1
    channel.redraw()
    second = channel.push(chunk)
    assert len(np.unique(second)) == 2
    assert second[-1] != first[0]
    np.testing.assert_allclose(second[-1], channel.impulse_responses[0][0], rtol=1e-6)


def test_settings_apply_from_the_next_block_and_keep_the_rest():
    channel = small([Link(cfo_hz=1000.0), Link(gain_db=-200.0)])
    chunk = np.ones((2, 10 * HOP), np.complex64)
    channel.push(chunk)
    y = [channel.push(chunk)]
    channel.set_links([Link(cfo_hz=-3000.0), Link(gain_db=-200.0)])
    y.append(channel.push(chunk))
    channel.set_links([Link(cfo_hz=0.0), Link(gain_db=-200.0)])
    y.append(channel.push(chunk))
    # A phase that jumped would show as a step of another size.
    steps_hz = np.angle(np.concatenate(y)[1:] / np.concatenate(y)[:-1]) * RATE / (2 * np.pi)
    values, counts = np.unique(np.rint(steps_hz / 1000), return_counts=True)
    assert values.tolist() == [-3, 0, 1]
    assert np.all(np.abs(counts - 10 * HOP) <= HOP)

    channel.set_links([Link(gain_db=-6.0), Link(gain_db=-200.0)])
    channel.set_receiver(Receiver(adc_bits=1))
    assert set(np.abs(channel.push(chunk)[-HOP:].real)) <= {0.0, 1.0}
    channel.set_receiver(Receiver())
    assert np.abs(channel.push(chunk)[-1]) == pytest.approx(10**-0.3, rel=1e-5)


def test_a_clock_that_is_set_keeps_its_drift():
    """A change of rate bends the client's time; it does not break it."""
    x = streams(1, symbols=300)
    channel = small([Link(clock_ppm=100.0)])
    half = 40 * HOP + channel.latency_samples
    y = [channel.push(x[:, :half])]
    channel.set_links([Link(clock_ppm=-50.0)])
    y.append(channel.push(x[:, half:]))
    y = np.concatenate(y)[channel.latency_samples :]
    n = np.arange(len(y))
    positions = np.where(n < 40 * HOP, n * (1 + 100e-6), 40 * HOP * (1 + 100e-6) + (n - 40 * HOP) * (1 - 50e-6))
    # The record's end lies behind a stream that is still going on.
    inner = slice(0, len(y) - 100)
    assert error_db(y[inner], resample_exact(x[0], positions)[inner]) < -50
    assert channel.drift_samples[0] == pytest.approx(40 * HOP * 100e-6 - 50e-6 * (len(y) - 40 * HOP), abs=0.2)


def test_drift_is_bounded_and_slips_are_counted():
    ppm, limit = 1000.0, 16
    channel = small([Link(clock_ppm=ppm), Link(clock_ppm=-ppm), Link()], max_drift_samples=limit)
    samples, chunk = 0, np.ones((3, 50 * HOP), np.complex64)
    for _ in range(5):
        np.testing.assert_allclose(channel.push(chunk)[-HOP:], 3, atol=1e-2)
        samples += chunk.shape[1]
        assert np.all(np.abs(channel.drift_samples) <= limit)
    # Each slip takes back the largest drift.
    expected = ppm * 1e-6 * (samples - channel.latency_samples) / limit
    assert channel.slips[:2] == pytest.approx((expected, expected), abs=1)
    assert channel.slips[2] == 0


def test_a_walking_clock_walks_as_far_as_it_should():
    """After n samples the rate has a standard deviation of walk * sqrt(n / rate)."""
    clients, blocks, walk = 200, 20, 5.0
    channel = small([Link(clock_walk_ppm=walk)] * clients)
    channel.push(np.zeros((clients, blocks * HOP + channel.latency_samples), np.complex64))
    expected = walk * np.sqrt(blocks * HOP / RATE)
    assert np.std(channel.clock_ppm) == pytest.approx(expected, rel=5 / np.sqrt(2 * clients))


def test_the_same_seed_gives_the_same_run():
    first = busy_channel()
    expected = first.push(BUSY_RECORD)
    np.testing.assert_array_equal(busy_channel().push(BUSY_RECORD), expected)
    first.reset()
    np.testing.assert_array_equal(first.push(BUSY_RECORD), expected)
    other = small(BUSY, BUSY_RECEIVER, seed=2, coherence_samples=3000, max_drift_samples=16)
    assert not np.allclose(other.push(BUSY_RECORD), expected)


def test_silence_does_not_show_in_what_follows():
    """The blocks of silence are skipped; those of a signal too small to matter are not, and all else is the same."""
    x = BUSY_RECORD.copy()
    x[x == 0] = 1e-20
    a, b = busy_channel(), busy_channel()
    np.testing.assert_allclose(a.push(BUSY_RECORD), b.push(x), rtol=1e-6, atol=1e-6)
    assert a.drift_samples == b.drift_samples
    for one, other in zip(a.impulse_responses, b.impulse_responses, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bad_samples_are_silence():
    x = streams(2)
    clean = x.copy()
    clean[1, 100:103] = 0
    x[1, 100:103] = np.nan, np.inf, 1e30
    channel = small([Link(clock_ppm=20.0)] * 2)
    np.testing.assert_array_equal(through(channel, x), through(small([Link(clock_ppm=20.0)] * 2), clean))
    assert channel.bad_samples == 3


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"links": []}, "links"),
        ({"links": [Link(delay_samples=4097.0)]}, "delay_samples"),
        ({"links": [Link(profile=DelayProfile((0.0, 1e-3), (0.0, 0.0)))]}, "profile"),
        ({"sample_rate_hz": 0.0}, "sample_rate_hz"),
        ({"seed": -1}, "seed"),
        ({"clock_seed": -1}, "clock_seed"),
        ({"coherence_samples": 10}, "coherence_samples"),
        ({"max_delay_samples": -1}, "max_delay_samples"),
        ({"max_drift_samples": 0}, "max_drift_samples"),
    ],
)
def test_bad_arguments_are_named(change, name):
    arguments = {"links": [Link()], "receiver": Receiver(), "sample_rate_hz": RATE, "seed": 1} | change
    with pytest.raises(ValueError, match=rf"{name} must be"):
        StreamingChannel(**arguments)


def test_bad_chunks_and_links_are_refused():
    channel = small([Link(), Link()])
    with pytest.raises(ValueError, match=r"chunk must be .*2 clients"):
        channel.push(np.zeros((3, 10), np.complex64))
    with pytest.raises(ValueError, match="links must be one for each of 2"):
        channel.set_links([Link()])
    with pytest.raises(ValueError, match="delay_samples must be"):
        channel.set_links([Link(), dataclasses.replace(Link(), delay_samples=1e4)])
