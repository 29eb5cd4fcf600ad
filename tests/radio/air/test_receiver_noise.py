# SPDX-License-Identifier: GPL-3.0-or-later
"""A receiver's noise against closed forms: k T B and the noise figure, for all bandwidths, rates and gains."""

import math

import numpy as np
import pytest

from oac_blocks.radio.virtual.air.air_settings import FULL_SCALE_DBM, VirtualAirSettings
from oac_blocks.radio.virtual.air.receiver_noise import ReceiverNoise
from oac_blocks.radio.virtual.air.shared_air import SharedAir

SAMPLES = 1 << 16


def heard(rate_hz, bandwidth_hz, rx_gain_db, decimation=1, **air):
    """What a lone receiver hears, full scale is 1."""
    one = SharedAir(VirtualAirSettings(**air), lock_step=True, expected=0)
    with one.lock:
        setup = one.context(0).settings
        setup.sample_rate_hz, setup.rx_bandwidth_hz, setup.rx_decimation = rate_hz, bandwidth_hz, decimation
        setup.gain_mode, setup.rx_gain_db = "manual", rx_gain_db
        one.context(0).changed()
    queue = one.open_rx(0, SAMPLES, 3)
    while not queue.ready:
        one.step()
    return queue.pop() @ [1 / 2048, 1j / 2048]


def db(power):
    return 10 * math.log10(power)


def thermal_dbfs(bandwidth_hz, rx_gain_db, noise_figure_db=3.0):
    """k T B at 290 K in dBm, in dB of full scale behind the gain."""
    return db(1.380649e-23 * 290 * bandwidth_hz / 1e-3) + noise_figure_db - FULL_SCALE_DBM + rx_gain_db


@pytest.mark.parametrize(
    ("rate_hz", "bandwidth_hz", "decimation", "counts_hz"),
    [
        (2_500_000, 18_000_000, 1, 2_500_000),
        (20_000_000, 20_000_000, 1, 20_000_000),
        (61_440_000, 18_000_000, 1, 18_000_000),
        (4_000_000, 1_000_000, 1, 1_000_000),
        (8_000_000, 18_000_000, 8, 1_000_000),
    ],
)
def test_thermal_noise_is_that_of_the_narrower_band(rate_hz, bandwidth_hz, decimation, counts_hz):
    """Within 0.2 dB: the filter's edges, and the converter's steps, which add 2/12 of a step's square."""
    power = np.mean(np.abs(heard(rate_hz, bandwidth_hz, 71, decimation, noise_figure_db=3.0)) ** 2)
    assert db(power - 1 / 6 / 2048**2) == pytest.approx(thermal_dbfs(counts_hz, 71), abs=0.2)


@pytest.mark.parametrize("rx_gain_db", [60, 71])
def test_the_gain_lifts_the_noise(rx_gain_db):
    power = np.mean(np.abs(heard(20_000_000, 20_000_000, rx_gain_db, noise_figure_db=6.0)) ** 2)
    assert db(power - 1 / 6 / 2048**2) == pytest.approx(thermal_dbfs(20e6, rx_gain_db, 6.0), abs=0.2)


def test_at_its_bandwidth_the_snr_is_as_named_and_twice_the_bandwidth_is_twice_the_noise():
    """-12 dB of full scale at a TX gain of -10 dB, 40 dB away, and a receiver's gain of 50 dB: -12 dB again."""
    for rate_hz, snr_db in ((2_500_000, 20.0), (5_000_000, 20.0 - db(2))):
        power = np.mean(np.abs(heard(rate_hz, 18_000_000, 50, snr_db=20.0)) ** 2)
        assert -12 - db(power) == pytest.approx(snr_db, abs=0.1)


def test_none_is_exactly_no_noise():
    assert not heard(2_500_000, 18_000_000, 71).any()


def test_the_filtered_noise_is_flat_and_ends_where_the_filter_ends():
    rng = np.random.SeedSequence(1)
    x = np.zeros(1 << 18, np.complex64)
    ReceiverNoise(rng).add(x, 1.0 / 4e6, 1e6, 4e6)
    spectrum = np.mean(np.abs(np.fft.fft(x.reshape(-1, 512) * np.hanning(512), axis=1)) ** 2, axis=0)
    hertz = np.abs(np.fft.fftfreq(512, 1 / 4e6))
    inside, outside = spectrum[hertz < 0.4e6], spectrum[hertz > 0.6e6]
    assert np.ptp(10 * np.log10(inside)) < 3  # 512 rows know each line to 1 / sqrt(512)
    assert db(outside.max() / inside.mean()) < -50


def test_how_the_stream_is_cut_does_not_matter():
    whole, parts = (np.zeros(10_000, np.complex64) for _ in range(2))
    ReceiverNoise(np.random.SeedSequence(1)).add(whole, 1e-6, 3e5, 1e6)
    one = ReceiverNoise(np.random.SeedSequence(1))
    for part in np.split(parts, [1000, 1001, 7000]):
        one.add(part, 1e-6, 3e5, 1e6)
    assert np.allclose(whole, parts, atol=1e-6)
