# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input fails at the edge, and the message names the argument, its value and what is allowed."""

import numpy as np
import pytest

from oac_blocks.dsp import Numerology, analog, bounds, channel, frame, fsk_mv, ofdm, preamble
from oac_blocks.dsp.channel import noise
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.checks import integer, real

NUM = Numerology()
RNG = np.random.default_rng(0)
VOTES = np.ones(10, np.int8)
GRID = np.ones((1, 192), np.complex64)
NAN_GRID = np.full((1, 192), np.nan, np.complex64)
INF_GRID = np.full((1, 192), np.inf, np.complex64)
ENTRIES = np.ones(10, np.float32)
WAVE = np.ones(300, np.complex64)

CASES = [
    # what is called, which argument is to be named, which value or kind of value
    (lambda: fsk_mv.encode(2 * VOTES, NUM, RNG), "votes", "2"),
    (lambda: fsk_mv.encode(VOTES.astype(float), NUM, RNG), "votes", "float64"),
    (lambda: fsk_mv.encode(VOTES.astype(np.int64), NUM, RNG), "votes", "int64"),
    (lambda: fsk_mv.encode(np.zeros(0, np.int8), NUM, RNG), "votes", "(0,)"),
    (lambda: fsk_mv.encode(np.int8(1), NUM, RNG), "votes", "()"),
    (lambda: fsk_mv.encode(VOTES, NUM, 7), "rng", "7"),
    (lambda: fsk_mv.encode(VOTES, NUM, RNG, repeats=0), "repeats", "0"),
    (lambda: fsk_mv.encode(VOTES, NUM, RNG, repeats=1.5), "repeats", "1.5"),
    (lambda: fsk_mv.detect(GRID, 0, NUM), "k", "0"),
    (lambda: fsk_mv.detect(GRID, -3, NUM), "k", "-3"),
    (lambda: fsk_mv.detect(GRID, True, NUM), "k", "True"),
    (lambda: fsk_mv.detect(GRID, 97, NUM), "grid", "(1, 192)"),
    (lambda: fsk_mv.detect(GRID[:, :190], 5, NUM), "grid", "(1, 190)"),
    (lambda: fsk_mv.detect(NAN_GRID, 5, NUM), "grid", "192 NaN"),
    (lambda: fsk_mv.detect(INF_GRID, 5, NUM), "grid", "infinite"),
    (lambda: fsk_mv.detect(GRID.real, 5, NUM), "grid", "float32"),
    (lambda: fsk_mv.quantise(np.float32([1, np.nan]), RNG), "entries", "1 NaN"),
    (lambda: fsk_mv.quantise(ENTRIES, RNG, -1.0), "abstain_below", "-1.0"),
    (lambda: ofdm.modulate(GRID[:, :100], NUM), "grid", "(1, 100)"),
    (lambda: ofdm.modulate(GRID[0], NUM), "grid", "(192,)"),
    (lambda: ofdm.modulate(NAN_GRID, NUM), "grid", "NaN"),
    (lambda: ofdm.modulate(np.ones((1, 192), int), NUM), "grid", "int64"),
    (lambda: ofdm.demodulate(WAVE, NUM), "x", "300 samples"),
    (lambda: ofdm.demodulate(np.zeros(0, np.complex64), NUM), "x", "(0,)"),
    (lambda: ofdm.demodulate(np.full(320, np.inf, np.complex64), NUM), "x", "320 NaN or infinite"),
    (lambda: ofdm.demodulate(np.ones(320, np.complex64), NUM, 65), "early_samples", "65"),
    (lambda: ofdm.pmepr_db(GRID, NUM, 0), "oversampling", "0"),
    (lambda: analog.encode(np.float32([np.inf]), NUM, 1.0), "entries", "1 NaN or infinite"),
    (lambda: analog.encode(VOTES, NUM, 1.0), "entries", "int8"),
    (lambda: analog.encode(ENTRIES, NUM, 0.0), "scale", "0.0"),
    (lambda: analog.encode(ENTRIES, NUM, float("nan")), "scale", "nan"),
    (lambda: analog.decode(GRID, 385, NUM, 1.0, 1), "grid", "(1, 192)"),
    (lambda: analog.decode(GRID, 5, NUM, 1.0, 0), "n_clients", "0"),
    (lambda: analog.precoder(GRID, "zero-forcing"), "inversion", "zero-forcing"),
    (lambda: analog.precoder(GRID, "truncated", 0.0), "least_magnitude", "0.0"),
    (lambda: analog.common_scale(0.0), "entry_rms", "0.0"),
    (lambda: frame.FrameLayout(0), "payload_symbols", "0"),
    (lambda: frame.FrameLayout(5, groups=0), "groups", "0"),
    (lambda: frame.assemble(WAVE, WAVE[:320], frame.FrameLayout(1)), "payload", "300 samples"),
    (lambda: frame.assemble(np.ones(320, np.complex64), WAVE, frame.FrameLayout(1)), "sync", "300 samples"),
    (lambda: frame.payload_of(WAVE, frame.FrameLayout(1)), "burst", "300 samples"),
    (lambda: channel.Link(clock_ppm=2000), "clock_ppm", "2000"),
    (lambda: channel.Link(fading="nakagami"), "fading", "nakagami"),
    (lambda: channel.Link(profile="lunar"), "profile", "lunar"),
    (lambda: channel.Link(delay_samples=float("nan")), "delay_samples", "nan"),
    (lambda: channel.Link(stream_offset_samples=0.5), "stream_offset_samples", "0.5"),
    (lambda: channel.Receiver(noise_alpha=2.5), "noise_alpha", "2.5"),
    (lambda: channel.Receiver(adc_bits=0), "adc_bits", "0"),
    (lambda: channel.Receiver(snr_db=float("inf")), "snr_db", "inf"),
    (lambda: channel.transmit(WAVE[None], [], channel.Receiver(), 1e6, RNG), "bursts", "(1, 300)"),
    (lambda: channel.transmit(WAVE[None], [channel.Link()], channel.Receiver(), 0.0, RNG), "sample_rate_hz", "0"),
    (lambda: channel.transmit(WAVE[None], [channel.Link()], channel.Receiver(), 1e6, RNG, 0), "samples", "0"),
    (lambda: DelayProfile((), ()), "delays_seconds", "no delay"),
    (lambda: DelayProfile((0.0,), (0.0, 1.0)), "powers_db", "2 values"),
    (lambda: DelayProfile((-1.0,), (0.0,)), "delays_seconds", "-1.0"),
    (lambda: noise.complex_alpha_stable(5, 0.0, 1.0, RNG), "alpha", "0.0"),
    (lambda: noise.complex_gaussian(5, -1.0, RNG), "power", "-1.0"),
    (lambda: noise.quantise(WAVE, full_scale=0.0), "full_scale", "0.0"),
    (lambda: bounds.mv_error_probability(-1, 0, 1.0), "k_plus", "-1"),
    (lambda: bounds.mv_error_probability(1, 0.5, 1.0), "k_minus", "0.5"),
    (lambda: bounds.mv_error_probability(1, 0, -1.0), "snr", "-1"),
    (lambda: bounds.mv_error_probability(1, 0, float("nan")), "snr", "nan"),
    (lambda: bounds.mv_error_probability(1, 0, 1.0, 0), "repeats", "0"),
    (lambda: bounds.delay_crlb(np.zeros(8, complex), 1.0), "waveform", "all zeros"),
    (lambda: bounds.delay_crlb(WAVE, 0.0), "snr", "0.0"),
    (lambda: bounds.cfo_crlb(1, 1.0), "length", "1"),
    (lambda: preamble.normalised_correlation(WAVE[:10], WAVE), "x", "10 samples"),
    (lambda: preamble.find_triggers(WAVE[:100]), "x", "100 samples"),
    (lambda: preamble.find_triggers(WAVE, threshold=2.0), "threshold", "2.0"),
    (lambda: preamble.estimate_arrival(WAVE, WAVE, 5000), "start_samples", "5000"),
    (lambda: preamble.estimate_arrival(WAVE, 0 * WAVE, 0), "waveform", "(300,)"),
    (lambda: preamble.client_sequence(192, NUM), "client", "192"),
    (lambda: preamble.shared_slot(0, NUM), "n_clients", "0"),
    (lambda: preamble.shared_slot(65, NUM), "n_clients", "65"),
    (lambda: preamble.estimate_shared(WAVE, 2, NUM), "symbol", "300 samples"),
    (lambda: preamble.estimate_arrival(WAVE, WAVE, [1.0, 2.0]), "start_samples", "(2,)"),
    (lambda: Numerology(sample_rate_hz="20e6"), "sample_rate_hz", "'20e6'"),
    (lambda: channel.Link(cfo_hz=True), "cfo_hz", "True"),
    (lambda: channel.Link(profile=["epa"]), "profile", "['epa']"),
    (lambda: channel.Receiver(snr_db=-4000.0), "snr_db", "-4000"),
    (
        lambda: channel.transmit(WAVE[None, None], [channel.Link()], channel.Receiver(), 1e6, RNG),
        "bursts",
        "(1, 1, 300)",
    ),
    (lambda: ofdm.modulate(np.full((1, 192), 1e300, complex), NUM), "grid", "192 NaN or infinite"),
    (lambda: analog.encode(np.full(4, 1e300), NUM, 1.0), "entries", "4 NaN or infinite"),
    (lambda: fsk_mv.detect(1e25 * GRID, 5, NUM), "grid", "1e19"),
    (lambda: analog.encode(np.ones((1, 10), np.float32), NUM, 1.0, GRID), "precoding", "(1, 192)"),
    (lambda: bounds.mv_error_probability(np.inf, 1, 1.0), "k_plus", "inf"),
    (lambda: bounds.mv_error_probability(1, 0, 1.0, np.inf), "repeats", "inf"),
    (
        lambda: frame.assemble(np.ones((3, 320), np.complex64), np.ones((2, 320), np.complex64), frame.FrameLayout(1)),
        "sync",
        "(2, 320)",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{name}" for i, (_, name, _) in enumerate(CASES)])
def test_bad_input_is_named(case):
    call, name, value = case
    with pytest.raises(ValueError, match="must be") as caught:
        call()
    message = str(caught.value)
    assert message.startswith(name)
    assert value in message


@pytest.mark.parametrize(
    ("check", "value", "said"), [(integer, np.float64(2.5), "2.5"), (real, np.bool_(True), "True")]
)
def test_a_number_of_numpy_is_shown_as_a_plain_one(check, value, said):
    """NumPy 2 writes np.float64(2.5), which nobody has typed."""
    with pytest.raises(ValueError, match=rf"k must be .*, got {said}$"):
        check("k", value, 0)
