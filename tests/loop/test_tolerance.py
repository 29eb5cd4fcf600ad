# SPDX-License-Identifier: GPL-3.0-or-later
"""How far off clients may be heard: the derivation of the default tolerance, checked on OFDM symbols."""

import numpy as np
import pytest

from oac_blocks.bench.threads.plan import bearable_offset_samples
from oac_blocks.dsp import ofdm
from oac_blocks.dsp.channel.fading import PROFILES
from oac_blocks.dsp.receive.server_stream import usual_early_samples
from oac_blocks.dsp.waveform.numerology import Numerology

NUM = Numerology(sample_rate_hz=2.5e6)
EARLY = usual_early_samples(NUM)


def interference(offset):
    """Power that is not its own, over the power of a subcarrier, for a burst that comes so many samples late."""
    rng = np.random.default_rng(1)
    symbols = np.exp(0.5j * np.pi * rng.integers(0, 4, (200, NUM.active_subcarriers))).astype(np.complex64)
    sent = ofdm.modulate(symbols, NUM).reshape(-1)
    heard = ofdm.demodulate(np.roll(sent, offset), NUM, EARLY)[1:-1]
    turned = symbols[1:-1] * np.exp(-2j * np.pi * NUM.subcarrier_frequencies() * offset)
    gain = np.vdot(turned, heard) / np.vdot(turned, turned)
    return np.mean(np.abs(heard - gain * turned) ** 2)


@pytest.mark.parametrize("offset", [-EARLY, -5, 0, 5, NUM.cp_samples - EARLY])
def test_inside_the_prefix_an_offset_costs_nothing(offset):
    assert interference(offset) < 1e-9


@pytest.mark.parametrize("beyond", [2, 4, 8])
def test_beyond_the_prefix_the_interference_is_the_closed_form(beyond):
    """x / N of the window is another symbol's (ISI), and what is missing is no longer orthogonal (ICI).

    Together (x/N) (2 - x/N) if all N subcarriers are in use; three quarters are, so it is a little less.
    """
    share = beyond / NUM.fft_size
    expected = share * (2 - share)
    for offset in (-EARLY - beyond, NUM.cp_samples - EARLY + beyond):
        assert 0.6 * expected < interference(offset) < 1.1 * expected


def test_four_standard_deviations_and_all_echoes_lie_inside_the_prefix():
    tolerance = bearable_offset_samples(NUM)
    longest = max(max(profile.delays_seconds) for profile in PROFILES.values()) * NUM.sample_rate_hz
    assert tolerance == 21 / 4
    assert 4 * tolerance <= EARLY
    assert 4 * tolerance + longest <= NUM.cp_samples - EARLY


@pytest.mark.parametrize(("rate_hz", "expected"), [(0.6e6, 5.25), (4e6, 5.25), (5e6, (64 - 21 - 25) / 4), (20e6, 0.5)])
def test_the_default_shrinks_as_echoes_fill_the_prefix(rate_hz, expected):
    assert bearable_offset_samples(Numerology(sample_rate_hz=rate_hz)) == pytest.approx(expected)
