# SPDX-License-Identifier: GPL-3.0-or-later
"""Symbol by symbol, as sample by sample: on the subcarriers that the server reads."""

import numpy as np
import pytest

from oac_blocks.dsp import Numerology, channel, frame, fsk_mv, ofdm, preamble
from oac_blocks.dsp.channel.multiple_access import Link, Receiver, transmit
from oac_blocks.dsp.channel.resampling import resample_exact
from oac_blocks.dsp.channel.symbol_channel import JOINT_MARGIN_SAMPLES, SymbolChannel, SymbolSum, mean_ringing
from oac_blocks.dsp.waveform.frame import FrameLayout
from tests.support.signals import error_db

NUM = Numerology()
RATE = NUM.sample_rate_hz
NOMINAL, EARLY = 64, 21
LAYOUT = FrameLayout(150, NUM, 4)  # groups of 38 and 37 symbols
SAMPLES = NOMINAL + LAYOUT.samples + 64


def clients(n, layout=LAYOUT):
    """Payloads (n, symbols, active) and sync symbols (n, active) as tones, and the bursts that they make."""
    rng = np.random.default_rng(n)
    votes = rng.choice(np.array([-1, 1], np.int8), (n, 96 * layout.payload_symbols))
    payloads, syncs = fsk_mv.encode(votes, NUM, rng), preamble.shared_slot(n, NUM)
    bursts = frame.assemble(ofdm.modulate(payloads, NUM), syncs, layout)
    return payloads, ofdm.demodulate(syncs, NUM)[:, 0], bursts


def draw(links, layout=LAYOUT, seed=1):
    rng = np.random.default_rng(seed)
    samples = NOMINAL + layout.samples + 64
    taps = [channel.draw_impulse_responses([link], RATE, rng)[0] for link in links]
    return taps, channel.clock_rates_ppm(links, RATE, samples, rng)[0]


def by_symbols(links, layout=LAYOUT):
    """The windows' subcarriers (symbols, active), and the truth behind them: echoes and clock rates."""
    payloads, syncs, _ = clients(len(links), layout)
    symbols = SymbolChannel(layout, NOMINAL, EARLY)
    taps, rates = draw(links, layout)
    total, heard = SymbolSum(symbols, links), np.zeros(layout.samples, np.complex64)
    for payload, sync, seen in zip(payloads, syncs, symbols.seen(links, taps, rates), strict=True):
        assert seen is not None
        total.add(payload, sync, seen)
    total.add_to(heard)
    return ofdm.demodulate(heard, NUM, EARLY), taps, rates


def by_samples(links, taps, rates, layout=LAYOUT):
    """The same through resampling that takes its time, and a plain convolution."""
    _, _, bursts = clients(len(links), layout)
    samples = NOMINAL + layout.samples + 64
    total = np.zeros(samples, np.complex128)
    for link, burst, own, at in zip(
        links,
        bursts,
        taps,
        channel.positions(np.array([x.arrival_samples() for x in links]), rates, samples),
        strict=True,
    ):
        arrived = np.convolve(resample_exact(burst, at), own)[:samples]
        total += arrived * np.exp(2j * np.pi * link.cfo_hz / RATE * np.arange(samples))
    return ofdm.demodulate(total[NOMINAL:][: layout.samples], NUM, EARLY)


@pytest.mark.parametrize(
    "link",
    [
        Link(delay_samples=NOMINAL + 0.5),
        Link(delay_samples=NOMINAL - 2.3, clock_ppm=20.0, clock_walk_ppm=0.01, cfo_hz=10.0),
        Link(delay_samples=NOMINAL + 7.9, clock_ppm=-20.0, clock_walk_ppm=0.01, cfo_hz=-300.0),
        Link(delay_samples=NOMINAL + 6.1, clock_ppm=200.0, cfo_hz=2000.0, fading="rayleigh"),
        Link(delay_samples=NOMINAL + 0.4, clock_ppm=20.0, cfo_hz=10.0, fading="rayleigh", profile="epa"),
    ],
)
def test_a_client_in_time_is_what_exact_resampling_makes_of_it(link):
    heard, taps, rates = by_symbols([link])
    expected = by_samples([link], taps, rates)
    assert error_db(heard, expected) < -60
    # No symbol stands out: the middles of pieces, their ends and the sync symbols are alike.
    error = np.mean(np.abs(heard - expected) ** 2, axis=1) / np.mean(np.abs(expected) ** 2)
    assert 10 * np.log10(error.max()) < -55


def test_whole_samples_do_not_ring():
    heard, taps, rates = by_symbols([Link(delay_samples=NOMINAL + 3.0, cfo_hz=50.0)])
    assert error_db(heard, by_samples([Link(delay_samples=NOMINAL + 3.0, cfo_hz=50.0)], taps, rates)) < -75


def test_clients_add_up():
    links = [
        Link(
            delay_samples=NOMINAL + 0.3 * i,
            clock_ppm=10.0 * i - 20,
            cfo_hz=20.0 * i,
            fading="rayleigh",
            profile="indoor",
        )
        for i in range(5)
    ]
    heard, taps, rates = by_symbols(links)
    assert error_db(heard, by_samples(links, taps, rates)) < -60


@pytest.mark.parametrize(("symbols", "groups"), [(1, 1), (5, 4), (65, 1), (200, 1)])
def test_any_layout(symbols, groups):
    layout = FrameLayout(symbols, NUM, groups)
    link = Link(delay_samples=NOMINAL + 0.5, clock_ppm=20.0, cfo_hz=10.0)
    heard, taps, rates = by_symbols([link], layout)
    assert heard.shape == (layout.symbols, 192)
    assert error_db(heard, by_samples([link], taps, rates, layout)) < -60


def test_the_fast_channel_hears_the_same():
    """The same draws as `transmit` makes: it is the same path, not one like it."""
    link = Link(delay_samples=NOMINAL + 0.4, clock_ppm=20.0, clock_walk_ppm=0.01, cfo_hz=10.0, fading="rayleigh")
    heard, _, _ = by_symbols([link])
    _, _, bursts = clients(1)
    arrived = transmit(bursts, [link], Receiver(), RATE, np.random.default_rng(1), SAMPLES).samples
    assert error_db(heard, ofdm.demodulate(arrived[NOMINAL:][: LAYOUT.samples], NUM, EARLY)) < -60


@pytest.mark.parametrize(
    ("link", "whole"),
    [
        (Link(delay_samples=NOMINAL + 0.5), True),
        (Link(delay_samples=NOMINAL - EARLY + JOINT_MARGIN_SAMPLES + 0.1), True),
        (Link(delay_samples=NOMINAL - EARLY + JOINT_MARGIN_SAMPLES - 0.1), False),
        (Link(delay_samples=NOMINAL + 43 - JOINT_MARGIN_SAMPLES - 0.1), True),
        (Link(delay_samples=NOMINAL + 43 - JOINT_MARGIN_SAMPLES + 0.1), False),
        (Link(delay_samples=NOMINAL - 21.0), True),  # whole samples: up to the window itself
        (Link(delay_samples=NOMINAL - 22.0), False),
        (Link(delay_samples=NOMINAL + 43.0), True),
        (Link(delay_samples=NOMINAL + 44.0), False),
        (Link(delay_samples=NOMINAL + 0.5, profile="eva", fading="rayleigh"), False),  # echoes up to 50 samples late
        (Link(delay_samples=NOMINAL + 0.5, clock_ppm=20.0, cfo_hz=48e3), False),  # 2 rad from the middle to the end
        (Link(delay_samples=NOMINAL + 0.5, clock_walk_ppm=20.0), False),
    ],
)
def test_who_is_seen_whole(link, whole):
    taps, rates = draw([link])
    seen = SymbolChannel(LAYOUT, NOMINAL, EARLY).seen([link], taps, rates)
    assert (seen[0] is not None) == whole


@pytest.mark.parametrize(
    "link",
    [
        Link(delay_samples=NOMINAL + 0.5, profile="eva", fading="rayleigh"),  # 7 samples of the symbol before
        Link(delay_samples=NOMINAL + 0.3, profile="etu", fading="rayleigh", cfo_hz=10.0),  # 57 samples
        Link(delay_samples=NOMINAL + 2.3, profile="eva", fading="rayleigh", clock_ppm=20.0, clock_walk_ppm=0.01),
        Link(delay_samples=NOMINAL - 15.4, clock_ppm=-20.0),  # the symbol after rings
        Link(delay_samples=NOMINAL - 26.6, clock_ppm=20.0, profile="indoor", fading="rayleigh"),  # 5 samples of it
    ],
)
def test_borders_in_the_windows_are_corrected(link):
    """As exact as for a client that is seen whole (the tests above): below -60 dB against the exact resampler."""
    payloads, syncs, _ = clients(1)
    taps, rates = draw([link])
    symbols = SymbolChannel(LAYOUT, NOMINAL, EARLY, borders=True)
    total, heard = SymbolSum(symbols, [link]), np.zeros(LAYOUT.samples, np.complex64)
    seen = symbols.seen([link], taps, rates)[0]
    assert seen is not None
    assert seen.borders is not None
    total.add(payloads[0], syncs[0], seen)
    without, truth = np.zeros(LAYOUT.samples, np.complex64), by_samples([link], taps, rates)
    total.add_to(without)
    total.add_borders(payloads[0], syncs[0], seen.borders)
    total.add_to(heard)
    errors = [error_db(ofdm.demodulate(one, NUM, EARLY), truth) for one in (heard, without)]
    assert errors[0] < -60
    assert errors[1] > errors[0] + 3


def test_a_burst_far_outside_the_window_is_not_corrected():
    link = Link(delay_samples=NOMINAL + 43 + 97.0)
    taps, rates = draw([link])
    assert SymbolChannel(LAYOUT, NOMINAL, EARLY, borders=True).seen([link], taps, rates) == [None]


@pytest.mark.parametrize("num", [NUM, Numerology(fft_size=128, active_subcarriers=88), Numerology(fft_size=512)])
def test_what_is_left_out_beside_the_band_is_as_stated(num):
    """The joints' ringing goes with the sine of the fraction of a sample: the mean over all fractions."""
    rng = np.random.default_rng(0)
    votes = rng.choice(np.array([-1, 1], np.int8), num.votes_per_symbol * 60)
    burst = ofdm.modulate(fsk_mv.encode(votes, num, rng), num)
    active = num.active_bins()
    guard = int(active[0])
    beside = np.r_[guard // 4 : guard - 4, active[-1] + 5 : num.fft_size - guard // 4]  # of an fftshifted spectrum
    start = num.cp_samples - EARLY
    powers = []
    for fraction in (np.arange(4) + 0.5) / 4:
        arrived = resample_exact(burst, np.arange(len(burst)) - fraction).reshape(60, -1)
        windows = arrived[1:-1, start : start + num.fft_size]
        spectrum = np.fft.fftshift(np.fft.fft(windows, axis=-1, norm="ortho"), axes=-1)
        powers.append(np.mean(np.abs(spectrum[:, beside]) ** 2))
    print(f"ringing of a client in time: {np.mean(powers):.2g}, stated {mean_ringing(num):.2g}")
    assert np.mean(powers) < 1.5 * mean_ringing(num)


def test_a_band_up_to_half_the_sample_rate_rings_too_much():
    assert mean_ringing(Numerology(active_subcarriers=248)) == np.inf
