# SPDX-License-Identifier: GPL-3.0-or-later
"""Votes to votes through all blocks of a link, with GNU Radio's noise between."""

import numpy as np
import pmt
import pytest
from gnuradio import analog, blocks, gr

from oac_blocks.blocks.fsk_mv_detector import fsk_mv_detector
from oac_blocks.blocks.fsk_mv_mapper import fsk_mv_mapper
from oac_blocks.blocks.instruments.vote_probe import vote_probe
from oac_blocks.blocks.instruments.vote_source import vote_source
from oac_blocks.hier.ofdm_demodulator import ofdm_demodulator
from oac_blocks.hier.ofdm_modulator import ofdm_modulator
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until


class Link:
    """Vote source, mapper, modulator, noise, demodulator, detector and probe, put together."""

    def __init__(self, k, snr):
        self.top_block = tb = gr.top_block()
        self.votes, self.mapper, self.modulator = vote_source(k, period_ms=0), fsk_mv_mapper(), ofdm_modulator()
        noise = analog.fastnoise_source_c(analog.GR_GAUSSIAN, snr**-0.5, 1, 1 << 18)
        air, self.demodulator, self.detector = blocks.add_cc(), ofdm_demodulator(), fsk_mv_detector(k)
        self.probe, self.sink = vote_probe(), blocks.vector_sink_f()
        tb.msg_connect((self.votes, "votes"), (self.mapper, "votes"))
        tb.msg_connect((self.votes, "votes"), (self.probe, "reference"))
        tb.msg_connect((self.detector, "soft_votes"), (self.probe, "soft_votes"))
        tb.connect(self.mapper, self.modulator, (air, 0))
        tb.connect(noise, (air, 1))
        tb.connect(air, self.demodulator, self.detector)
        tb.connect(self.probe, self.sink)
        self.reports = Messages(tb, self.probe, "error_rate")

    def send(self, bursts):
        """Send bursts and wait until all of them are compared; their reports."""
        before = len(self.reports)
        for _ in range(bursts):
            post(self.votes._sender, "next", pmt.PMT_T)
        until(lambda: len(self.reports) == before + bursts)
        return [pmt.to_python(self.reports[before + t]) for t in range(bursts)]

    @property
    def dropped(self):
        return [block.dropped for block in (self.mapper, self.demodulator, self.detector, self.probe)]


@pytest.mark.parametrize(("snr_db", "k", "bursts"), [(3, 960, 100), (8, 21_880, 10)])
def test_error_rate_is_that_of_noncoherent_fsk(snr_db, k, bursts):
    snr = 10 ** (snr_db / 10)
    link = Link(k, snr)
    with running(link.top_block):
        reports = link.send(bursts)
        until(lambda: len(link.sink.data()) == bursts)
    assert [report["round"] for report in reports] == list(range(bursts))
    np.testing.assert_allclose(link.sink.data(), [report["error_rate"] for report in reports], rtol=1e-6)
    assert link.dropped == [0, 0, 0, 0]
    expected = np.exp(-snr / 2) / 2
    assert abs(link.probe.mean_error_rate - expected) < 3 * np.sqrt(expected * (1 - expected) / (k * bursts))


def test_link_can_be_stopped_and_started_again():
    link = Link(960, 1e4)
    for _ in range(3):
        with running(link.top_block):
            assert [report["errors"] for report in link.send(5)] == [0] * 5
    assert link.dropped == [0, 0, 0, 0]
