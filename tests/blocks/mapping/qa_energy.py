# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries to energies and back: the same as dsp's, tagged, and through noise with the error of the closed form."""

import numpy as np
import pmt
import pytest
from gnuradio import analog as gr_analog
from gnuradio import blocks, gr

from oac_blocks.blocks.energy_detector import energy_detector
from oac_blocks.blocks.energy_mapper import energy_mapper
from oac_blocks.blocks.instruments.entry_probe import entry_probe
from oac_blocks.blocks.instruments.entry_source import entry_source
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp import Numerology, bounds
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.dsp.waveform.schemes.energies import PEAK_ENERGY
from oac_blocks.hier.ofdm_demodulator import ofdm_demodulator
from oac_blocks.hier.ofdm_modulator import ofdm_modulator
from tests.support.flowgraphs import Messages, post, run, running, tag, tags
from tests.support.polling import until

NUM = Numerology()
SCHEME = scheme_named("energy")


def entries(k, seed=1):
    return np.random.default_rng(seed).standard_normal(k).astype(np.float32)


def bursts_of(mapper, messages, symbols):
    tb = gr.top_block()
    sink = blocks.vector_sink_c(192)
    tb.connect(mapper, sink)
    with running(tb):
        for message in messages:
            post(mapper, "entries", message)
        until(lambda: len(sink.data()) >= 192 * symbols)
    return np.array(sink.data(), np.complex64).reshape(-1, 192), tags(sink)


@pytest.mark.parametrize("repeats", [1, 3])
def test_bursts_are_those_of_dsp_bit_for_bit_and_tagged(repeats):
    first, second = entries(1000), entries(97)
    messages = [pdus.make(first, {"round": 1}), pdus.make(second, {"round": 2})]
    rng = np.random.default_rng(5)
    expected = [SCHEME.encode(one, NUM, rng=rng, scale=0.5, repeats=repeats) for one in (first, second)]
    symbols = [len(one) for one in expected]
    grid, found = bursts_of(energy_mapper(192, 0.5, repeats, seed=5), messages, sum(symbols))
    np.testing.assert_array_equal(grid, np.concatenate(expected))
    at = symbols[0]
    assert found == [(0, "packet_len", at), (0, "round", 1), (at, "packet_len", symbols[1]), (at, "round", 2)]


def test_bad_messages_are_dropped_and_the_next_good_one_goes_out():
    mapper = energy_mapper()
    votes = pdus.make(np.ones(3, np.int8))
    nothing, nan = pdus.make(np.zeros(0, np.float32)), pdus.make(np.float32([np.nan]))
    grid, _ = bursts_of(mapper, [pmt.intern("no PDU"), votes, nothing, nan, pdus.make(np.float32([1000]))], 1)
    assert np.abs(grid.ravel()[:4]) ** 2 == pytest.approx([PEAK_ENERGY, 0, 0, 0])  # a large entry is cut
    assert mapper.dropped == 4


def test_scale_and_repeats_can_be_set():
    mapper = energy_mapper()
    mapper.set_scale(0.25)
    mapper.set_repeats(2)
    grid, _ = bursts_of(mapper, [pdus.make(entries(96))], 2)
    expected = SCHEME.encode(entries(96), NUM, rng=np.random.default_rng(0), scale=0.25, repeats=2)
    np.testing.assert_array_equal(grid, expected)
    assert (mapper.scale, mapper.repeats) == (0.25, 2)


def test_detector_gives_the_mean_of_dsp_bit_for_bit_with_metadata():
    k, rng = 100, np.random.default_rng(1)
    how = {"rng": rng, "scale": 0.5, "repeats": 2}
    grid = SCHEME.encode(entries(k), NUM, **how) + SCHEME.encode(entries(k, 3), NUM, **how)
    detector = energy_detector(k=1)
    detector.set_k(k)
    detector.set_scale(0.5)
    detector.set_n_clients(2)
    detector.set_repeats(2)
    tb = gr.top_block()
    source_tags = [tag(0, "packet_len", 3), tag(0, "round", 8), tag(3, "packet_len", 2)]
    source = blocks.vector_source_c(np.concatenate([grid, grid[:2]]).ravel().tolist(), False, 192, source_tags)
    messages = Messages(tb, detector, "entries")
    tb.connect(source, detector)
    run(tb)
    (pdu,) = messages.pdus(np.float32)
    np.testing.assert_array_equal(pdu.data, SCHEME.detect(grid, k, NUM, scale=0.5, repeats=2, clients=2))
    assert pmt.to_python(pdu.metadata["round"]) == 8
    assert detector.dropped == 1  # the second burst is too short for k


@pytest.mark.parametrize(("snr_db", "repeats"), [(0, 1), (20, 1), (10, 3)])
def test_error_through_noise_is_the_closed_form(snr_db, repeats):
    """One client whose channel does not fade: all of an entry's energy e is steady. Gaussian entries have E e = c E|g|.

    The squared error of an entry of energy e is (e + n)^2 + n^2 - e^2, which is linear in e, so its mean over the
    entries is that of the mean energy.
    """
    k, bursts, noise_power, scale = 960, 60, 10 ** (-snr_db / 10), 2.0
    tb = gr.top_block()
    source, mapper, modulator = entry_source(k, period_ms=0), energy_mapper(192, scale, repeats), ofdm_modulator()
    noise = gr_analog.fastnoise_source_c(gr_analog.GR_GAUSSIAN, noise_power**0.5, 1, 1 << 18)
    air, demodulator = blocks.add_cc(), ofdm_demodulator()
    detector = energy_detector(k, 192, scale, repeats=repeats)
    probe, sink = entry_probe(), blocks.null_sink(gr.sizeof_float)
    tb.msg_connect((source, "entries"), (mapper, "entries"))
    tb.msg_connect((source, "entries"), (probe, "reference"))
    tb.msg_connect((detector, "entries"), (probe, "entries"))
    tb.connect(mapper, modulator, (air, 0))
    tb.connect(noise, (air, 1))
    tb.connect(air, demodulator, detector)
    tb.connect(probe, sink)
    reports = Messages(tb, probe, "error")
    with running(tb):
        for _ in range(bursts):
            post(source._sender, "next", pmt.PMT_T)
        until(lambda: len(reports) == bursts)
    energy_mean = scale * np.sqrt(2 / np.pi)
    expected = bounds.energy_variance(energy_mean, 0.0, noise_power, repeats, steady_squares=energy_mean**2) / scale**2
    measured = 10 ** (probe.mean_error_db / 10)
    # The squared error has a kurtosis of 9 at most (a difference of two exponential energies): 8 / n of itself,
    # and the entries' energy 2 / n.
    assert abs(measured / expected - 1) < 3 * np.sqrt((8 + 2) / (k * bursts))
    assert [block.dropped for block in (mapper, demodulator, detector, probe)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        (energy_mapper, {"active_subcarriers": 6}),
        (energy_mapper, {"scale": 0}),
        (energy_mapper, {"repeats": 0}),
        (energy_mapper, {"seed": -1}),
        (energy_mapper, {"length_tag": ""}),
        (energy_detector, {"k": 0}),
        (energy_detector, {"scale": 0}),
        (energy_detector, {"n_clients": 0}),
        (energy_detector, {"repeats": 0}),
    ],
)
def test_bad_arguments_are_named(block, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        block(**arguments)
