# SPDX-License-Identifier: GPL-3.0-or-later
"""The channel simulators agree where they overlap: the same burst, the same link, and the closed form as reference.

The burst is an OFDM frame whose tones go on from symbol to symbol: a subcarrier k with k cp / fft whole does not jump
at a cyclic prefix. Such a burst is a sum of endless tones, so the closed form needs no resampler. With the rate error
p, the arrival T, echoes h_d and the carrier offset f, the server's sample n is

    y(n) = e^{j 2 pi f n / R} sum_d h_d sum_k a_k e^{j 2 pi k (1 + p) (n - d - T) / N}

All simulators are compared on the subcarriers of the server's FFT windows, the first and the last symbol left out.
"""

import numpy as np
import pytest

from calibration.waves import SharedTones
from fl_app.air.simulation.path import Path
from oac_blocks.dsp import Numerology, channel, frame, ofdm
from oac_blocks.dsp.channel.crystal import Crystal, CrystalSettings
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.channel.multiple_access import Link, Receiver, transmit
from oac_blocks.dsp.channel.resampling import HOP
from oac_blocks.dsp.channel.sample_history import SampleHistory
from oac_blocks.dsp.channel.streaming_channel import StreamingChannel
from oac_blocks.dsp.channel.symbol_channel import SymbolChannel, SymbolSum
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.shared_slot import shared_slot
from oac_blocks.radio.virtual.air import link as radio_link
from oac_blocks.radio.virtual.air.timeline import Timeline
from tests.support.signals import error_db

NUM = Numerology()
RATE = NUM.sample_rate_hz
NOMINAL, EARLY = 64, 21
LAYOUT = FrameLayout(40, NUM, 1)
SAMPLES = NOMINAL + LAYOUT.samples + 64
ECHOES = DelayProfile((0.0, 2 / RATE, 5 / RATE), (0.0, -3.0, -8.0))
SUBCARRIERS = np.rint(NUM.subcarrier_frequencies() * NUM.fft_size).astype(np.int64)

LINKS = {
    "a whole delay": Link(delay_samples=NOMINAL + 3),
    "a fraction of a sample": Link(delay_samples=NOMINAL + 3.37),
    "carrier frequency offset": Link(delay_samples=NOMINAL, cfo_hz=800.0),
    "a fast clock": Link(delay_samples=NOMINAL, clock_ppm=20.0),
    "a slow clock": Link(delay_samples=NOMINAL, clock_ppm=-40.0),
    "echoes": Link(delay_samples=NOMINAL, profile=ECHOES),
    "all of them": Link(delay_samples=NOMINAL + 2.6, clock_ppm=20.0, cfo_hz=-500.0, profile=ECHOES),
}


def tones():
    """Return the amplitudes of the subcarriers; only those that go on from symbol to symbol are not 0."""
    rng = np.random.default_rng(1)
    phases = np.exp(2j * np.pi * rng.random(len(SUBCARRIERS)))
    return np.where(SUBCARRIERS * NUM.cp_samples % NUM.fft_size == 0, phases, 0).astype(np.complex64)


def burst():
    payload = np.tile(tones(), (LAYOUT.payload_symbols, 1))
    sync = ofdm.modulate(tones()[None], NUM)
    return frame.assemble(ofdm.modulate(payload, NUM)[None], sync[None], LAYOUT)[0]


def taps_of(link):
    return channel.draw_impulse_responses([link], RATE, np.random.default_rng(1))[0]


def closed_form(link):
    """Return the server's samples; amplitudes are those of a unitary transform."""
    rate, n = 1 + 1e-6 * link.clock_ppm, np.arange(SAMPLES)
    taps = taps_of(link)
    omega = 2 * np.pi * SUBCARRIERS / NUM.fft_size
    amplitudes = tones() / np.sqrt(NUM.fft_size)
    used = np.flatnonzero(amplitudes)
    # The first symbol of the burst has its prefix before its window, so tone k stands at phase -k cp at its sample 0.
    at = rate * (n[:, None] - np.flatnonzero(taps) - link.arrival_samples()) - NUM.cp_samples
    y = sum(np.exp(1j * omega[k] * at) @ taps[np.flatnonzero(taps)] * amplitudes[k] for k in used)
    return y * np.exp(2j * np.pi * link.cfo_hz * n / RATE)


def through_transmit(link):
    return transmit(burst()[None], [link], Receiver(), RATE, np.random.default_rng(1), SAMPLES).samples


def through_training_path(link):
    return Path(link, 1.0, RATE, 1, (0, 0, 0)).carry(burst(), SAMPLES)


def through_stream(link):
    stream = StreamingChannel([link], Receiver(), RATE, 1, max_delay_samples=512, max_drift_samples=512)
    silence = np.zeros(SAMPLES + stream.latency_samples - len(burst()), np.complex64)
    pieces = np.array_split(np.concatenate((burst(), silence)), 5)
    return np.concatenate([stream.push(piece[None]) for piece in pieces])[stream.latency_samples :][:SAMPLES]


def through_virtual_radios(link):
    """Two virtual radios whose crystals differ. They begin two blocks earlier: before time 0 all crystals run true."""
    first, p, lo = 2 * HOP, 1e-6 * link.clock_ppm, 1e-6
    crystals = [Crystal(CrystalSettings(ppm), np.random.SeedSequence(1)) for ppm in (link.clock_ppm, 0.0)]
    sender, receiver = (
        radio_link.End(crystal, Timeline(RATE), lo_ppm) for crystal, lo_ppm in zip(crystals, (1e6 * lo, 0), strict=True)
    )
    carrier_hz = link.cfo_hz / (p + lo)  # crystal and oscillator together make the offset
    # The burst's sample 0 leaves at first / (1 + p), and arrives at first + arrival.
    delay = (first + link.arrival_samples() - first / (1 + p)) / RATE
    history = SampleHistory(1 << 14)
    history.push(np.concatenate((np.zeros(first), burst(), np.zeros(2 * HOP))).astype(np.complex64))
    blocks = -(-SAMPLES // HOP)
    out = np.zeros(blocks * HOP, np.complex64)
    track = radio_link.track(radio_link.borders(first, blocks, receiver), sender, receiver, delay, carrier_hz)
    radio_link.add_to(out, track, history, radio_link.Taps.constant(taps_of(link), blocks), -(1 << 14))
    # The carrier has turned by a constant until then, on the way and by the crystal's lead; others begin at 0.
    turns = carrier_hz * (p * (first / RATE - delay) - delay + lo * first / RATE)
    return out[:SAMPLES] * np.exp(-2j * np.pi * turns)


def through_symbols(link):
    """Subcarriers go in, and samples come out from the nominal one on."""
    symbols = SymbolChannel(LAYOUT, NOMINAL, EARLY)
    rates, _ = channel.clock_rates_ppm([link], RATE, SAMPLES, np.random.default_rng(1))
    (seen,) = symbols.seen([link], [taps_of(link)], rates)
    assert seen is not None
    total, heard = SymbolSum(symbols, [link]), np.zeros(LAYOUT.samples, np.complex64)
    total.add(np.tile(tones(), (LAYOUT.payload_symbols, 1)), tones(), seen)
    total.add_to(heard)
    return np.concatenate((np.zeros(NOMINAL), heard))


def heard_subcarriers(samples):
    windows = samples[NOMINAL : NOMINAL + LAYOUT.samples].astype(np.complex64)
    return ofdm.demodulate(windows, NUM, EARLY)[1:-1]


# Largest error against the closed form, in dB. That of the streams is their interpolation filter's, and that of symbols
# the Taylor series of what drifts within one. Virtual radios have echoes a sample of the sender apart, not of the
# receiver: 5 samples at 20 ppm are 1e-4 samples, -75 dB at the mean frequency of the band.
SIMULATORS = {
    "transmit": (through_transmit, -100.0),
    "training path": (through_training_path, -100.0),
    "streaming channel": (through_stream, -100.0),
    "virtual radios": (through_virtual_radios, -75.0),
    "symbol channel": (through_symbols, -100.0),
}


@pytest.mark.parametrize("case", LINKS)
def test_all_channels_give_the_closed_form(case):
    link = LINKS[case]
    reference = heard_subcarriers(closed_form(link))
    errors = {name: error_db(heard_subcarriers(run(link)), reference) for name, (run, _) in SIMULATORS.items()}
    assert {name: error for name, error in errors.items() if error > SIMULATORS[name][1]} == {}
    assert np.sum(np.abs(reference) ** 2) > 1


def test_the_comparison_sees_a_hundredth_of_a_sample():
    """It turns a tone by omega / 100, and the error's energy is the mean square of that over the tones."""
    link, later = Link(delay_samples=NOMINAL + 3.37), Link(delay_samples=NOMINAL + 3.38)
    turns = 0.01 * 2 * np.pi * SUBCARRIERS[np.flatnonzero(tones())] / NUM.fft_size
    error = error_db(heard_subcarriers(through_transmit(later)), heard_subcarriers(closed_form(link)))
    assert error == pytest.approx(10 * np.log10(np.mean(turns**2)), abs=0.1)


def test_the_calibrations_tones_are_those_of_a_transmitted_symbol():
    """Calibration computes a sync symbol's subcarriers directly, for a delay and echoes that stay within the symbol.

    A symbol that stands alone rings at its ends through a fractional delay: -56 dB at half a sample.
    """
    layout, client, delay = RoundLayout(NUM, clients=3), 1, 2.4
    link = Link(delay_samples=NOMINAL + delay, profile=ECHOES)
    symbol = shared_slot(3, NUM)[client]
    heard = transmit(symbol[None], [link], Receiver(), RATE, np.random.default_rng(1), NOMINAL + 400).samples
    window = ofdm.demodulate(heard[NOMINAL : NOMINAL + NUM.symbol_samples], NUM, EARLY)[0]
    (direct,) = SharedTones(layout).of(client, np.array([delay]), taps_of(link).astype(np.complex128))
    assert error_db(window, direct) < -50
