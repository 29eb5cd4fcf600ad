# SPDX-License-Identifier: GPL-3.0-or-later
"""Votes to votes through all blocks of a link, with GNU Radio's noise between."""

import numpy as np
import pmt
import pytest
from gnuradio import analog, blocks, gr

from oac_blocks.fsk_mv_detector import fsk_mv_detector
from oac_blocks.fsk_mv_mapper import fsk_mv_mapper
from oac_blocks.hier.ofdm_demodulator import ofdm_demodulator
from oac_blocks.hier.ofdm_modulator import ofdm_modulator
from oac_blocks.vote_probe import vote_probe
from oac_blocks.vote_source import vote_source
from tests.blocks.flowgraphs import Messages, post, running, until


@pytest.mark.parametrize(("snr_db", "k", "bursts"), [(3, 960, 100), (8, 21_880, 10)])
def test_error_rate_is_that_of_noncoherent_fsk(snr_db, k, bursts):
    snr = 10 ** (snr_db / 10)
    tb = gr.top_block()
    votes, mapper, modulator = vote_source(k, period_ms=0), fsk_mv_mapper(), ofdm_modulator()
    noise = analog.fastnoise_source_c(analog.GR_GAUSSIAN, snr**-0.5, 1, 1 << 18)
    air, demodulator, detector = blocks.add_cc(), ofdm_demodulator(), fsk_mv_detector(k)
    probe, sink = vote_probe(), blocks.vector_sink_f()
    tb.msg_connect((votes, "votes"), (mapper, "votes"))
    tb.msg_connect((votes, "votes"), (probe, "reference"))
    tb.msg_connect((detector, "soft_votes"), (probe, "soft_votes"))
    tb.connect(mapper, modulator, (air, 0))
    tb.connect(noise, (air, 1))
    tb.connect(air, demodulator, detector)
    tb.connect(probe, sink)
    reports = Messages(tb, probe, "error_rate")
    with running(tb):
        for _ in range(bursts):
            post(votes._voter, "next", pmt.PMT_T)
        until(lambda: len(reports) == bursts and len(sink.data()) == bursts)
    assert [pmt.to_python(reports[t])["round"] for t in range(bursts)] == list(range(bursts))
    assert mapper.dropped == demodulator.dropped == detector.dropped == probe.dropped == 0
    expected = np.exp(-snr / 2) / 2
    assert abs(np.mean(sink.data()) - expected) < 3 * np.sqrt(expected * (1 - expected) / (k * bursts))
