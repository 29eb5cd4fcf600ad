# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's stream down to the clients, and there and back again through both channels."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.radio_clock import RadioClock
from oac_blocks.dsp.channel.resampling import HOP, resample_exact
from oac_blocks.dsp.channel.streaming_channel import StreamingBroadcast, StreamingChannel
from oac_blocks.dsp.preamble import trigger
from oac_blocks.dsp.receive.arrival import estimate_arrival
from tests.support.signals import error_db

NUM = Numerology()
RATE = NUM.sample_rate_hz
PROFILE = DelayProfile((0.0, 5 / RATE, 130 / RATE), (0.0, -3.0, -6.0))


def stream(symbols=100, seed=0):
    rng = np.random.default_rng(seed)
    votes = rng.choice(np.array([-1, 1], np.int8), 96 * symbols)
    return ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)


def small(links, receivers=None, seed=1, **kwargs):
    """A channel of little latency, so that short records pass through it."""
    kwargs = {"max_delay_samples": 512, "max_drift_samples": 512} | kwargs
    return StreamingBroadcast(links, receivers or [Receiver()] * len(links), RATE, seed, **kwargs)


def through(channel, x):
    """The whole record and what the latency keeps back, the latency taken off."""
    tail = np.zeros(channel.latency_samples, np.complex64)
    return channel.push(np.concatenate((x, tail)))[:, channel.latency_samples :]


BUSY = [
    Link(clock_ppm=300.0, clock_walk_ppm=20.0, fading="rayleigh", profile=PROFILE, cfo_hz=1234.5, delay_samples=7.3),
    Link(gain_db=-3.0, clock_ppm=-800.0, clock_walk_ppm=900.0, fading="rician", stream_offset_samples=-40),
    Link(clock_ppm=900.0),
    Link(gain_db=3.0),
]
BUSY_RECEIVERS = [Receiver(20.0, 1.7), Receiver(), Receiver(10.0), Receiver(0.0, 2.0, 8, 4.0)]
# Loud, silent, and short in between: whatever silence saves must not show.
BUSY_RECORD = stream(80)
BUSY_RECORD[6000:15_000] = 0
BUSY_RECORD[11_000:11_100] = 1


def busy_channel():
    return small(BUSY, BUSY_RECEIVERS, coherence_samples=3000, max_drift_samples=16)


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, len(BUSY_RECORD)), max_size=12))
def test_how_the_stream_is_cut_changes_nothing(cuts):
    whole = busy_channel()
    expected = whole.push(BUSY_RECORD)
    channel = busy_channel()
    pieces = [channel.push(piece) for piece in np.split(BUSY_RECORD, sorted(cuts))]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), expected)
    assert channel.slips == whole.slips
    assert min(whole.slips[1:3]) > 0
    assert channel.drift_samples == whole.drift_samples


def test_a_plain_channel_is_a_delay_to_the_bit():
    x = stream()
    offsets = (0, 7, -100)
    channel = small([Link(stream_offset_samples=offset) for offset in offsets])
    y = through(channel, x)
    padded = np.pad(x, 200)
    for row, offset in zip(y, offsets, strict=True):
        np.testing.assert_array_equal(row, padded[200 - offset :][: len(row)])


@pytest.mark.parametrize(
    ("ppm", "delay", "offset"),
    [(0.0, 0.5, 0), (20.0, 0.0, 0), (-20.0, 3.3, 10), (500.0, 2.25, 300), (-1000.0, 0.0, -50)],
)
def test_against_the_exact_resampler(ppm, delay, offset):
    """At its sample n a fast client hears what the server sent less than n samples after the start."""
    x = stream()
    y = through(small([Link(clock_ppm=ppm, delay_samples=delay, stream_offset_samples=offset)]), x)[0]
    positions = np.arange(len(y)) / (1 + ppm * 1e-6) - offset - delay
    assert error_db(y, resample_exact(x, positions)) < -50


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_whole_buffer_is_of_use(sign):
    """The largest delay and the largest drift together, chunk by chunk: late and fast, early and slow."""
    x = stream(180)
    channel = small([Link(clock_ppm=sign * 1000.0, delay_samples=sign * 512.0)], max_drift_samples=60)
    pieces = [channel.push(x[i : i + 1000])[0] for i in range(0, len(x), 1000)]
    y = np.concatenate(pieces)[channel.latency_samples :]
    assert channel.slips == (0,)
    assert abs(channel.drift_samples[0]) > 52
    positions = np.arange(len(y)) / (1 + sign * 1e-3) - sign * 512
    assert error_db(y, resample_exact(x, positions)) < -50


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_far_reach_holds_what_a_clock_gains_over_it(sign):
    """0.1 % of these delays and drifts is more than the resampler's guard leaves."""
    largest, chunk = 80_000, 1 << 18
    link = Link(clock_ppm=sign * 1000.0, delay_samples=float(sign * largest))
    limits = {"max_delay_samples": largest, "max_drift_samples": largest}
    down = StreamingBroadcast([link], [Receiver()], RATE, 1, **limits)
    up = StreamingChannel([dataclasses.replace(link, clock_ppm=-link.clock_ppm)], Receiver(), RATE, 1, **limits)
    assert down.latency_samples - 2 * largest - 2048 > 2e-3 * largest - 128
    silence, ones = np.zeros(chunk, np.complex64), np.ones(chunk, np.complex64)
    for channel in (down, up):
        while abs(channel.drift_samples[0]) < largest - 1200:
            channel.push(silence if channel is down else silence[None])
        while abs(channel.drift_samples[0]) < largest - 300:
            y = channel.push(ones if channel is down else ones[None])
        np.testing.assert_allclose(y.ravel()[-HOP:], 1, atol=1e-2)
        assert channel.slips == (0,)


def test_the_oscillator_works_the_other_way_round():
    link = Link(cfo_hz=3000.0)
    x = np.ones(20 * HOP, np.complex64)
    up = StreamingChannel([link], Receiver(), RATE, 1, max_delay_samples=512, max_drift_samples=512)
    rising, falling = up.push(x[None]), small([link]).push(x)[0]
    heard = slice(up.latency_samples + 100, None)
    step = 2 * np.pi * 3000.0 / RATE
    np.testing.assert_allclose(np.angle(rising[heard][1:] / rising[heard][:-1]), step, atol=1e-6)
    np.testing.assert_allclose(np.angle(falling[heard][1:] / falling[heard][:-1]), -step, atol=1e-6)
    np.testing.assert_allclose((rising * falling)[heard], 1, atol=1e-5)


def test_every_receivers_noise_is_its_own():
    samples = 100 * HOP
    silence = np.zeros(samples, np.complex64)
    receivers = [Receiver(0.0), Receiver(-10.0), Receiver(), Receiver(0.0, 2.0, 4, 2.0)]
    channel = small([Link()] * 4, receivers)
    y = channel.push(silence)[:, channel.latency_samples :].astype(np.complex128)
    up = StreamingChannel([Link()] * 4, Receiver(0.0), RATE, 1, max_delay_samples=512, max_drift_samples=512)
    server = up.push(np.broadcast_to(silence, (4, samples)))[up.latency_samples :]
    n = y.shape[1]
    step_power = 2 * (2.0 / 8) ** 2 / 12
    powers = np.mean(np.abs(y) ** 2, axis=1)
    for power, expected in zip(powers, (1, 10, 0, 1 + step_power), strict=True):
        # The last one clips at 2, which takes a little away.
        assert power == pytest.approx(expected, rel=5 / np.sqrt(n) + 0.02 * (expected == 1 + step_power))
    heard = [y[0], y[1] / np.sqrt(10), y[3], server]
    for i, one in enumerate(heard):
        for other in heard[:i]:
            assert abs(np.mean(one * other.conj())) < 6 / np.sqrt(n)


def test_client_i_is_the_same_radio_in_both_channels():
    """Walks and fading are alike although the channel up has an input more; another seed of the clocks changes them."""
    links = [Link(clock_ppm=20.0, clock_walk_ppm=3.0, fading="rayleigh", profile="epa")] * 2
    silence = np.zeros(200 * HOP, np.complex64)

    def walked(channel, *inputs):
        channel.push(np.broadcast_to(silence, (*inputs, len(silence))))
        return np.array(channel.clock_ppm[:2])

    down = small(links)
    up = StreamingChannel([*links, Link(gain_db=-6.0)], Receiver(), RATE, 1)
    np.testing.assert_array_equal(down.impulse_responses[1], up.impulse_responses[1])
    ppm_down, ppm_up = walked(down), walked(up, 3)
    # Down has less latency here, and has come further: compare what both have been through.
    assert ppm_down[0] != ppm_down[1]
    blocks = (len(silence) - up.latency_samples) // HOP + 1
    for i in range(2):
        clock = RadioClock(20.0, 3.0, RATE, 512, np.random.SeedSequence(1, spawn_key=(3, i)))
        path = [clock.ppm]
        for _ in range(200):
            clock.step()
            path.append(clock.ppm)
        assert ppm_up[i] == path[blocks]
        assert ppm_down[i] in path
    assert np.all(walked(small(links, seed=2)) == ppm_down)
    assert np.all(walked(small(links, clock_seed=2)) != ppm_down)
    assert np.any(small(links, seed=2).impulse_responses[0] != down.impulse_responses[0])


def test_settings_apply_while_it_runs_and_can_be_set_back():
    channel = small([Link(), Link()])
    x = np.ones(10 * HOP, np.complex64)
    channel.push(x)
    channel.set_links([Link(gain_db=-20.0), Link()])
    np.testing.assert_allclose(channel.push(x)[:, -1], [0.1, 1], rtol=1e-6)
    channel.set_links([Link(), Link(clock_ppm=10.0)])
    channel.push(x)
    # A change of the rate bends the client's time; its own clock has drifted since.
    assert channel.drift_samples[1] == pytest.approx(10 * HOP * 10e-6, abs=2 * HOP * 10e-6)
    channel.set_receivers([Receiver(adc_bits=1), Receiver()])
    assert set(channel.push(x)[0, -HOP:].real) <= {-1.0, 0.0}
    channel.set_links([Link(fading="rayleigh")] * 2)
    channel.set_receivers([Receiver()] * 2)
    channel.push(x)
    before = channel.push(x)[:, -1]
    np.testing.assert_allclose(before, [taps[0] for taps in channel.impulse_responses], rtol=1e-6)
    channel.redraw()
    channel.push(x)
    assert np.all(channel.push(x)[:, -1] != before)


def test_the_same_seed_gives_the_same_run():
    first = busy_channel()
    expected = first.push(BUSY_RECORD)
    np.testing.assert_array_equal(busy_channel().push(BUSY_RECORD), expected)
    first.reset()
    np.testing.assert_array_equal(first.push(BUSY_RECORD), expected)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="receivers must be one for each of 2"):
        small([Link(), Link()], [Receiver()])
    with pytest.raises(ValueError, match="clock_seed must be"):
        small([Link()], clock_seed=-1)
    channel = small([Link(), Link()])
    with pytest.raises(ValueError, match="receivers must be one for each of 2"):
        channel.set_receivers([Receiver()])
    with pytest.raises(ValueError, match="chunk must be"):
        channel.push(np.zeros((2, 10), np.complex64))


class There:
    """The server's trigger down to one client, whose receive stream is its transmit stream, and up again."""

    CHUNK = 1 << 18
    AT = 1000  # the trigger's place in its chunk

    def __init__(self, link, **kwargs):
        self.down = StreamingBroadcast([link], [Receiver()], RATE, 1, **kwargs)
        self.up = StreamingChannel([link, Link()], Receiver(), RATE, 1, **kwargs)
        self.time = 0
        self.silence = np.zeros(self.CHUNK, np.complex64)
        self.trigger = self.silence.copy()
        self.trigger[self.AT : self.AT + len(trigger())] = trigger()

    def push(self, x):
        heard = self.down.push(x)[0]
        self.time += len(x)
        return self.up.push([heard, self.silence[: len(x)]])

    def wait(self, samples):
        for _ in range(samples // self.CHUNK):
            self.push(self.silence)

    def round_trip_samples(self):
        """Less the latency of both channels. The client's answer comes after the latency down: its turnaround."""
        record = np.concatenate((self.push(self.trigger), self.push(self.silence)))
        latency = self.down.latency_samples + self.up.latency_samples
        loudest = int(np.argmax(np.abs(np.correlate(record, trigger(), "valid"))))
        found = estimate_arrival(record[loudest - 100 : loudest + 600], trigger(), 100.0)
        return loudest - 100 + float(found.time_samples) - self.AT - latency


@pytest.mark.parametrize("ppm", [20.0, -20.0])
def test_a_steady_clocks_round_trip_stays_constant(ppm):
    """Over 300 million samples, in which the clock drifts 6,000 samples away."""
    there = There(Link(clock_ppm=ppm, delay_samples=3.3, stream_offset_samples=20, cfo_hz=500.0))
    trips = []
    while there.time < 300e6:
        trips.append(there.round_trip_samples())
        there.wait(30_000_000)
    turnaround = there.down.latency_samples
    # The client counts its turnaround in its own samples.
    np.testing.assert_allclose(trips, 2 * 23.3 + turnaround / (1 + 1e-6 * ppm) - turnaround, rtol=0, atol=1e-3)
    assert abs(there.up.drift_samples[0]) > 5900
    assert there.down.drift_samples[0] == pytest.approx(there.up.drift_samples[0], abs=1)


def test_a_walking_clocks_round_trip_differs_by_the_change_over_the_turnaround():
    ppm, walk = 20.0, 10.0
    there = There(Link(clock_ppm=ppm, clock_walk_ppm=walk))
    sent, trips = [], []
    for _ in range(15):
        sent.append(there.time + There.AT + len(trigger()) / 2)
        trips.append(there.round_trip_samples())
        there.wait(5_000_000)
    # What the client's count is at the server's times, from its clock: there, a turnaround later, and back.
    clock = RadioClock(ppm, walk, RATE, 16_384, np.random.SeedSequence(1, spawn_key=(3, 0)))
    steps = [clock.step() for _ in range(there.time // HOP)]
    server = HOP * np.arange(len(steps))
    client = server + np.array([lead for lead, _ in steps])
    turnaround = there.down.latency_samples
    answered = np.interp(np.interp(sent, server, client) + turnaround, client, server)
    np.testing.assert_allclose(trips, answered - sent - turnaround, rtol=0, atol=1e-3)
    # The rate has walked by several ppm, the round trip by that many millionths of the turnaround and no more.
    rates = np.array([rate for _, rate in steps])
    assert 0.1 < np.ptp(trips) < turnaround * np.ptp(rates)
    assert abs(there.up.clock_ppm[0] - ppm) > 3


@pytest.mark.parametrize("ppm", [400.0, -400.0])
def test_after_both_have_slipped_the_round_trip_is_what_it_was(ppm):
    there = There(Link(clock_ppm=ppm, delay_samples=2.0), max_drift_samples=1000)
    before = there.round_trip_samples()
    trips, slips = [], []
    for _ in range(8):
        there.wait(1_500_000)
        if there.up.slips == (*there.down.slips, 0):
            trips.append(there.round_trip_samples())
            slips.append(there.up.slips[0])
    assert slips[-1] >= 3
    assert len(trips) >= 4
    np.testing.assert_allclose(trips, before, rtol=0, atol=1e-3)


def test_silence_costs_next_to_nothing(monkeypatch):
    """The parts that cost time are not called for it: nor for a trigger's silence, once its echoes are over."""
    from oac_blocks.dsp.channel import streaming_link

    resampled = []
    delay_blocks = streaming_link.delay_blocks
    monkeypatch.setattr(
        streaming_link, "delay_blocks", lambda x, *rest: resampled.append(len(x)) or delay_blocks(x, *rest)
    )
    there = There(Link(clock_ppm=20.0, fading="rayleigh", profile="epa"))
    there.wait(10 * There.CHUNK)
    assert not resampled
    there.round_trip_samples()
    # A trigger of 280 samples lies in two blocks at most, and what it becomes in three.
    assert sum(resampled) <= 5
