# SPDX-License-Identifier: GPL-3.0-or-later
"""Amplitudes to amplitudes through all blocks of an analog link, with GNU Radio's noise between."""

import numpy as np
import pmt
import pytest
from gnuradio import analog as gr_analog
from gnuradio import blocks, gr

from oac_blocks.blocks.analog_demapper import analog_demapper
from oac_blocks.blocks.analog_mapper import analog_mapper
from oac_blocks.blocks.instruments.entry_probe import entry_probe
from oac_blocks.blocks.instruments.entry_source import entry_source
from oac_blocks.dsp import analog
from oac_blocks.hier.ofdm_demodulator import ofdm_demodulator
from oac_blocks.hier.ofdm_modulator import ofdm_modulator
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until


@pytest.mark.parametrize("snr_db", [0, 20])
def test_error_is_the_noise(snr_db):
    """With a scale that puts energy 1 on a subcarrier, the error over the entries' energy is the noise over 1."""
    k, bursts, noise_power = 3840, 20, 10 ** (-snr_db / 10)
    scale = analog.common_scale(1.0)
    tb = gr.top_block()
    entries, mapper, modulator = entry_source(k, period_ms=0), analog_mapper(scale=scale), ofdm_modulator()
    noise = gr_analog.fastnoise_source_c(gr_analog.GR_GAUSSIAN, noise_power**0.5, 1, 1 << 18)
    air, demodulator, demapper = blocks.add_cc(), ofdm_demodulator(), analog_demapper(k, scale=scale)
    probe, sink = entry_probe(), blocks.null_sink(gr.sizeof_float)
    tb.msg_connect((entries, "entries"), (mapper, "entries"))
    tb.msg_connect((entries, "entries"), (probe, "reference"))
    tb.msg_connect((demapper, "entries"), (probe, "entries"))
    tb.connect(mapper, modulator, (air, 0))
    tb.connect(noise, (air, 1))
    tb.connect(air, demodulator, demapper)
    tb.connect(probe, sink)
    reports = Messages(tb, probe, "error")
    with running(tb):
        for _ in range(bursts):
            post(entries._sender, "next", pmt.PMT_T)
        until(lambda: len(reports) == bursts)
    # Both sums are of n squared Gaussian values: sqrt(2 / n) of itself each.
    measured = 10 ** (probe.mean_error_db / 10)
    assert abs(measured / noise_power - 1) < 3 * np.sqrt(2 * 2 / (k * bursts))
    assert [block.dropped for block in (mapper, demodulator, demapper, probe)] == [0, 0, 0, 0]
