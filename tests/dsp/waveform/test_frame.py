# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology
from oac_blocks.dsp.waveform.frame import FrameLayout, assemble, payload_of, syncs_of

NUM = Numerology(fft_size=16, cp_samples=4, active_subcarriers=8, dc_nulls=2)


def test_the_prototype_has_1138_symbols_in_4_groups():
    layout = FrameLayout(1138)
    assert layout.group_symbols().tolist() == [285, 285, 284, 284]
    assert layout.sync_starts_samples().tolist() == [0, 286 * 320, 572 * 320, 857 * 320]
    assert layout.group_starts_samples().tolist() == [320, 287 * 320, 573 * 320, 858 * 320]
    assert layout.samples == 1142 * 320
    assert layout.seconds == pytest.approx(1142 * 16e-6)


@given(symbols=st.integers(1, 400), groups=st.integers(1, 9), clients=st.integers(1, 3))
def test_payload_and_syncs_come_back(symbols, groups, clients):
    rng = np.random.default_rng(symbols)
    layout = FrameLayout(symbols, NUM, groups)
    payload = rng.standard_normal((clients, symbols * 20)).astype(np.complex64)
    sync = rng.standard_normal((clients, 20)).astype(np.complex64)
    burst = assemble(payload, sync, layout)
    assert burst.shape == (clients, layout.samples)
    np.testing.assert_array_equal(payload_of(burst, layout), payload)
    np.testing.assert_array_equal(syncs_of(burst, layout), np.repeat(sync[:, None], layout.groups, axis=1))
    for start in layout.sync_starts_samples():
        np.testing.assert_array_equal(burst[:, start : start + 20], sync)


@given(symbols=st.integers(1, 5000), groups=st.integers(1, 9))
def test_groups_are_as_equal_as_can_be_and_never_empty(symbols, groups):
    sizes = FrameLayout(symbols, NUM, groups).group_symbols()
    assert sizes.sum() == symbols
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == min(groups, symbols)


def test_a_longer_record_is_cut_and_a_shorter_one_refused():
    layout = FrameLayout(3, NUM)
    burst = np.ones(layout.samples + 7, np.complex64)
    assert payload_of(burst, layout).shape == (60,)
    with pytest.raises(ValueError, match=r"burst.*at least 120 samples.*119"):
        payload_of(burst[:119], layout)
