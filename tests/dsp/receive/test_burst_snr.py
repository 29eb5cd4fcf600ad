# SPDX-License-Identifier: GPL-3.0-or-later
"""The SNR that the server measures, against the one that the record was made with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology
from oac_blocks.dsp.receive import burst_snr
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from tests.dsp.receive.air_records import add_payload
from tests.support.signals import noise

NUMEROLOGIES = {
    "64": Numerology(20e6, 64, 16, 48, 4),
    "64, 8 nulls at DC": Numerology(20e6, 64, 16, 48, 8),
    "128": Numerology(20e6, 128, 32, 96, 8),
    "128, long prefix": Numerology(20e6, 128, 64, 96, 4),
    "256": Numerology(),
    "512": Numerology(20e6, 512, 128, 384, 16),
}


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
@pytest.mark.parametrize("num", NUMEROLOGIES.values(), ids=NUMEROLOGIES.keys())
def test_the_snr_is_measured_in_every_numerology(num, snr_db, clients):
    rng = np.random.default_rng([num.fft_size, num.dc_nulls, int(snr_db), clients])
    layout = RoundLayout(num, clients, slot_samples=4 * num.symbol_samples)
    early, measured = num.cp_samples // 3, []
    for _ in range(4):
        votes = rng.choice(np.array([-1, 1], np.int8), (clients, 24 * num.votes_per_symbol))
        form = layout.frame(votes.shape[1])
        x = noise(form.samples + 200, 10 ** (-snr_db / 10), rng)
        offsets = rng.uniform(-0.5, 0.5, clients)
        turns = np.exp(2j * np.pi * rng.random(clients))
        add_payload(x, layout, 100, votes, offsets, turns, np.zeros(clients), rng)
        record = x[100 : 100 + form.samples].astype(np.complex64)
        measured.append(burst_snr.measure(record, form, early))
    # The fewest bins are two, of 28 symbols in each of four bursts: 224 energies. The median of exponential ones is
    # known to 1 / sqrt(n) of itself: 0.3 dB, and three times that. What leaks may cost the rest.
    assert burst_snr.snr_db(measured, clients) == pytest.approx(snr_db, abs=1.0)


@given(
    half_size=st.integers(16, 512), share=st.floats(0.1, 0.8), nulls=st.integers(0, 4), seed=st.integers(0, 2**32 - 1)
)
def test_white_noise_is_measured_wherever_the_band_leaves_an_eighth_of_the_spectrum(half_size, share, nulls, seed):
    size = 2 * half_size
    active = max(4, int(share * (size - 2 * nulls)) // 4 * 4)
    num = Numerology(1.0, size, size // 4, active, 2 * nulls)
    bins = burst_snr.null_bins(num)
    beside = size - (num.active_bins()[-1] + 1 - num.active_bins()[0])
    if beside >= max(8, size // 8):
        assert len(bins)
    assert not np.isin(bins, np.arange(num.active_bins()[0] - 2, num.active_bins()[-1] + 3)).any()
    if len(bins):
        layout = RoundLayout(num, 1, slot_samples=4 * num.symbol_samples).frame(64 * num.votes_per_symbol)
        x = noise(layout.samples, 3.0, np.random.default_rng(seed)).astype(np.complex64)
        # At least two bins of 68 symbols: five standard errors of the median are 1.9 dB.
        assert 10 * np.log10(burst_snr.measure(x, layout, 0).noise / 3.0) == pytest.approx(0.0, abs=2.5)
