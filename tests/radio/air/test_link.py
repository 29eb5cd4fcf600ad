# SPDX-License-Identifier: GPL-3.0-or-later
"""From a transmitter's samples to a receiver's: copies where clocks agree, closed forms where they do not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp.channel.crystal import Crystal, CrystalSettings
from oac_blocks.dsp.channel.resampling import HOP, resample_exact
from oac_blocks.dsp.channel.sample_history import SampleHistory
from oac_blocks.radio.virtual.air import link
from oac_blocks.radio.virtual.air.feeder import Conversion, Feeder
from oac_blocks.radio.virtual.air.timeline import Timeline

RATE = 1e6
UNIT = np.ones(1, np.complex64)


def end(ppm=0.0, rate=RATE, lo_ppm=0.0, first=0):
    return link.End(Crystal(CrystalSettings(ppm), np.random.SeedSequence(1)), Timeline(rate, first), lo_ppm)


def history_of(samples):
    history = SampleHistory(1 << 14)
    history.push(samples.astype(np.complex64))
    return history


def noise(n, seed=1, band=0.8):
    """Band-limited, so that values between samples are defined."""
    spectrum = np.zeros(n, complex)
    rng = np.random.default_rng(seed)
    used = np.abs(np.fft.fftfreq(n)) < band / 2
    spectrum[used] = rng.normal(size=used.sum()) + 1j * rng.normal(size=used.sum())
    x = np.fft.ifft(spectrum)
    return (x / np.sqrt(np.mean(np.abs(x) ** 2))).astype(np.complex64)


def receive(samples, sender, receiver, first=2 * HOP, blocks=6, delay=0.0, carrier=0.0, taps=UNIT):
    out = np.zeros(blocks * HOP, np.complex64)
    way = link.track(link.borders(first, blocks, receiver), sender, receiver, delay, carrier)
    rows = link.Taps.constant(np.asarray(taps, np.complex64), blocks)
    link.add_to(out, way, history_of(samples), rows, -(1 << 14))
    return out, way


@pytest.mark.parametrize("delay", [0, 1, 17, 300])
def test_equal_clocks_copy_bit_for_bit(delay):
    x = noise(20_000)
    y, _ = receive(x, end(), end(), delay=delay / RATE)
    assert np.array_equal(y, x[2 * HOP - delay : 8 * HOP - delay])


def test_another_count_of_samples_is_a_shift():
    x = noise(20_000)
    y, _ = receive(x, end(first=500), end())
    assert np.array_equal(y, x[2 * HOP + 500 : 8 * HOP + 500])


def test_echoes_are_copies_too():
    x = noise(20_000)
    y, _ = receive(x, end(), end(), taps=[1, 0, 0, 0.5j])
    assert y == pytest.approx(x[2 * HOP : 8 * HOP] + 0.5j * x[2 * HOP - 3 : 8 * HOP - 3], abs=1e-5)


@settings(max_examples=25)
@given(sender=st.floats(-40, 40), receiver=st.floats(-40, 40), delay=st.floats(0, 3e-5))
def test_clocks_against_the_exact_resampler(sender, receiver, delay):
    x = noise(20_000)
    y, way = receive(x, end(sender), end(receiver), delay=delay)
    # Sample n of the receiver is at true time n / (R (1 + q)); the sender had then sent (1 + p) R (t - delay).
    true = (2 * HOP + np.arange(len(y))) / RATE / (1 + 1e-6 * receiver)
    at = RATE * (1 + 1e-6 * sender) * (true - delay)
    pick = slice(0, None, 37)
    error = y[pick] - resample_exact(x, at[pick])
    assert np.sqrt(np.mean(np.abs(error) ** 2)) < 10 ** (-60 / 20)
    assert way.places[0] == pytest.approx(at[0], abs=1e-6)


def test_one_block_at_a_time_is_the_same():
    x = noise(20_000)
    whole, _ = receive(x, end(20), end(-13), carrier=2.4e9)
    parts = [receive(x, end(20), end(-13), carrier=2.4e9, first=(2 + i) * HOP, blocks=1)[0] for i in range(6)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_a_crystal_turns_the_carrier_as_well():
    ones = np.ones(40_000, np.complex64)
    y, _ = receive(ones, end(20), end(0), carrier=2.4e9, blocks=16)
    turn = np.unwrap(np.angle(y)).astype(float)
    slope = np.polyfit(np.arange(len(y)), turn, 1)[0] * RATE / (2 * np.pi)
    assert slope == pytest.approx(20e-6 * 2.4e9, rel=1e-5)


def test_an_oscillators_own_error_adds_to_it():
    ones = np.ones(40_000, np.complex64)
    y, _ = receive(ones, end(lo_ppm=3), end(lo_ppm=-1), carrier=1e9, blocks=16)
    slope = np.polyfit(np.arange(len(y)), np.unwrap(np.angle(y)), 1)[0] * RATE / (2 * np.pi)
    assert slope == pytest.approx(4e-6 * 1e9, rel=1e-5)


def test_silence_costs_nothing_and_is_silence():
    y, _ = receive(np.zeros(20_000), end(20), end(-20), carrier=2.4e9)
    assert not y.any()


def tone(hertz, n, rate):
    return np.exp(2j * np.pi * hertz * np.arange(n) / rate)


def fed(conversion, x, piece=3000):
    source = SampleHistory(1 << 14)
    feeder = Feeder(conversion, source, Timeline(conversion.tx_rate_hz), 0)
    for begin in range(0, len(x), piece):
        source.push(x[begin : begin + piece].astype(np.complex64))
        feeder.advance(min(begin + piece, len(x)))
    ratio = conversion.rx_rate_hz / conversion.tx_rate_hz
    count = int((len(x) - Feeder.lookahead(conversion)) * ratio) - 2
    return feeder.history.windows(np.array([0]), count)[0]


WIDE = 56e6


@pytest.mark.parametrize(("tx", "rx"), [(1e6, 2.5e6), (2.5e6, 1e6), (8e6, 1e6), (1e6, 8e6), (2_083_333, 2_500_000)])
def test_a_tone_stays_what_it_is_at_another_rate(tx, rx):
    y = fed(Conversion(tx, rx, 0.0, WIDE, WIDE), tone(0.3e6, 40_000, tx))
    middle = slice(len(y) // 4, 3 * len(y) // 4)
    wanted = tone(0.3e6, len(y), rx)
    assert np.max(np.abs(y[middle] - wanted[middle])) < 1e-3


def test_oscillators_apart_shift_the_spectrum():
    y = fed(Conversion(1e6, 1e6, 150e3, WIDE, WIDE), tone(0.1e6, 30_000, 1e6))
    middle = slice(5000, 20_000)
    assert np.max(np.abs(y[middle] - tone(0.25e6, len(y), 1e6)[middle])) < 1e-3


@pytest.mark.parametrize(("hertz", "passes"), [(0.1e6, True), (-0.3e6, True), (0.45e6, False)])
def test_what_is_shifted_out_of_the_receivers_band_is_gone(hertz, passes):
    y = fed(Conversion(1e6, 1e6, 150e3, WIDE, WIDE), tone(hertz, 30_000, 1e6))
    level = np.sqrt(np.mean(np.abs(y[5000:20_000]) ** 2))
    assert level == pytest.approx(1, abs=1e-3) if passes else level < 10 ** (-55 / 20)


@pytest.mark.parametrize("side", ["tx", "rx"])
def test_bandwidth_counts_on_both_sides(side):
    widths = {"tx": (400e3, WIDE), "rx": (WIDE, 400e3)}[side]
    conversion = Conversion(2e6, 2e6, 0.0, *widths)
    inside = fed(conversion, tone(0.12e6, 30_000, 2e6))[5000:20_000]
    outside = fed(conversion, tone(0.35e6, 30_000, 2e6))[5000:20_000]
    assert np.mean(np.abs(inside) ** 2) == pytest.approx(1, abs=0.01)
    assert np.mean(np.abs(outside) ** 2) < 1e-5


def test_frequencies_too_far_apart_hear_nothing():
    assert Conversion(1e6, 1e6, 1.2e6, WIDE, WIDE).silent
    assert not Conversion(1e6, 1e6, 0.9e6, WIDE, WIDE).silent
    assert Conversion(1e6, 1e6, 0.0, 18e6, 18e6).trivial
