# SPDX-License-Identifier: GPL-3.0-or-later
"""Our OFDM against GNU Radio's own C++ blocks, in both directions."""

import numpy as np
import pytest
from gnuradio import blocks, digital, fft, gr

from oac_blocks.dsp import Numerology, fsk_mv, ofdm
from tests.support.flowgraphs import run

NUMEROLOGIES = [Numerology(), Numerology(fft_size=64, cp_samples=16, active_subcarriers=48, dc_nulls=2)]


def votes_grid(num, symbols=228):
    rng = np.random.default_rng(1)
    votes = rng.integers(-1, 2, symbols * num.votes_per_symbol).astype(np.int8)
    return fsk_mv.encode(votes, num, rng)


@pytest.mark.parametrize("num", NUMEROLOGIES, ids=str)
def test_gnuradio_demodulates_our_burst(num):
    grid = votes_grid(num)
    burst = ofdm.modulate(grid, num)
    tb = gr.top_block()
    source = blocks.vector_source_c(burst.tolist())
    drop_prefix = blocks.keep_m_in_n(gr.sizeof_gr_complex, num.fft_size, num.symbol_samples, num.cp_samples)
    to_vector = blocks.stream_to_vector(gr.sizeof_gr_complex, num.fft_size)
    transform = fft.fft_vcc(num.fft_size, True, (), True, 1)
    sink = blocks.vector_sink_c(num.fft_size)
    tb.connect(source, drop_prefix, to_vector, transform, sink)
    run(tb)
    spectrum = np.array(sink.data()).reshape(-1, num.fft_size) / np.sqrt(num.fft_size)
    np.testing.assert_allclose(spectrum[:, num.active_bins()], grid, atol=1e-5)
    np.testing.assert_allclose(np.delete(spectrum, num.active_bins(), axis=1), 0, atol=1e-5)


@pytest.mark.parametrize("num", NUMEROLOGIES, ids=str)
def test_we_demodulate_gnuradios_burst(num):
    grid = votes_grid(num)
    spectrum = np.zeros((len(grid), num.fft_size), np.complex64)
    spectrum[:, num.active_bins()] = grid
    tb = gr.top_block()
    source = blocks.vector_source_c(spectrum.ravel().tolist(), False, num.fft_size)
    transform = fft.fft_vcc(num.fft_size, False, (), True, 1)
    prefix = digital.ofdm_cyclic_prefixer(num.fft_size, num.symbol_samples)
    sink = blocks.vector_sink_c()
    tb.connect(source, transform, prefix, sink)
    run(tb)
    samples = np.array(sink.data(), np.complex64) / np.sqrt(num.fft_size)
    np.testing.assert_allclose(samples, ofdm.modulate(grid, num), atol=1e-5)
    np.testing.assert_allclose(ofdm.demodulate(samples, num), grid, atol=1e-5)
