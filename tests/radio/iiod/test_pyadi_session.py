# SPDX-License-Identifier: GPL-3.0-or-later
"""A session as pyadi-iio's users and its own hardware tests have it: one Pluto with a cable from its TX to its RX.

Attributes, the digital loopback, tones of the generators and of buffers, gain control, and RSSI against a known level.
"""

import math

import numpy as np
import pytest

from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.radio.virtual.air.air_settings import CABLE_DB, FULL_SCALE_DBM, NOISE_FIGURE_DB, VirtualAirSettings
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.support.polling import until

adi = pytest.importorskip("adi")

LO_HZ = 2_300_000_000
RATE_HZ = 4_000_000
SAMPLES = 1 << 14
RSSI_REFERENCE_DB = 11.5  # of full scale at an RX gain of 0 dB
AIM_DBFS = -11  # of automatic gain control
AUTOMATIC = ["slow_attack", "fast_attack", "hybrid"]


@pytest.fixture(scope="module")
def uri():
    settings = VirtualAirSettings(
        (CrystalSettings(),), path_loss_db=CABLE_DB, leakage_db=0.0, noise_figure_db=NOISE_FIGURE_DB, chip="ad9363a"
    )
    with VirtualPlutos(settings) as served:
        yield served.uris[0]


@pytest.fixture
def radio(uri):
    radio = adi.Pluto(uri=uri)
    radio.loopback = 0
    radio.sample_rate = RATE_HZ
    radio.rx_lo = radio.tx_lo = LO_HZ
    radio.rx_rf_bandwidth = radio.tx_rf_bandwidth = RATE_HZ
    radio.gain_control_mode_chan0 = "manual"
    radio.rx_hardwaregain_chan0 = 10
    radio.tx_hardwaregain_chan0 = -20
    radio.rx_buffer_size = SAMPLES
    radio.tx_cyclic_buffer = True
    yield radio
    radio.disable_dds()
    radio.rx_destroy_buffer()
    radio.tx_destroy_buffer()


def db(x):
    return 20 * math.log10(x)


def rssi(radio):
    return radio._get_iio_attr("voltage0", "rssi", False, radio._ctrl)


def after_the_old(radio, blocks=9):
    """Receive, and throw away what the kernel's buffers held before."""
    for _ in range(blocks):
        heard = radio.rx()
    return heard


def rms_dbfs(heard):
    return 10 * math.log10(np.mean(np.abs(heard) ** 2) / 2048**2)


def peak(heard):
    """Frequency in Hz and level in dB of full scale of the strongest line, and the next one's level."""
    spectrum = np.abs(np.fft.fft(heard * np.blackman(len(heard)))) / np.sum(np.blackman(len(heard))) / 2048
    at = int(np.argmax(spectrum))
    others = spectrum.copy()
    others[np.arange(at - 4, at + 5) % len(heard)] = 0
    return np.fft.fftfreq(len(heard), 1 / RATE_HZ)[at], db(spectrum[at]), db(others.max())


@pytest.mark.parametrize(
    ("name", "low", "high", "step", "tolerance"),
    [
        ("tx_hardwaregain_chan0", -89.75, 0.0, 0.25, 0),
        ("rx_lo", 325_000_000, 3_800_000_000, 1, 8),
        ("tx_lo", 325_000_000, 3_800_000_000, 1, 8),
        ("sample_rate", 2_084_000, 61_440_000, 1, 4),
        ("rx_rf_bandwidth", 200_000, 20_000_000, 1, 0),
        ("loopback", 0, 2, 1, 0),
    ],
)
def test_attributes_read_back_over_their_range(radio, name, low, high, step, tolerance):
    rng = np.random.default_rng(1)
    whole = isinstance(low, int)
    for place in (0, *rng.integers(0, round((high - low) / step) + 1, 10).tolist(), round((high - low) / step)):
        value = low + place * step
        setattr(radio, name, value)
        assert getattr(radio, name) == pytest.approx(int(value) if whole else value, abs=tolerance)
    if name != "rx_rf_bandwidth":  # the driver takes the nearest
        with pytest.raises(OSError, match="Invalid argument"):
            setattr(radio, name, high + max(step, 100 * tolerance))


def test_the_digital_loopback_returns_a_ramp(radio):
    radio.loopback = 1
    ramp = np.arange(2048)
    radio.rx_buffer_size = 2 * len(ramp)
    radio.tx((ramp << 4) + 1j * (-(ramp << 4) - 1))
    heard = after_the_old(radio)
    start = int(np.flatnonzero(heard.real == 0)[0])
    assert np.array_equal(heard[start : start + len(ramp)], ramp + 1j * (-ramp - 1))


@pytest.mark.parametrize(("tone_hz", "scale"), [(500_000, 0.06), (1_000_000, 0.25), (1_500_000, 0.9)])
def test_a_generators_tone_arrives_where_it_belongs(radio, tone_hz, scale):
    radio.dds_single_tone(tone_hz, scale)
    at, level, rest = peak(after_the_old(radio))
    assert at == pytest.approx(tone_hz, rel=0.01)
    assert level == pytest.approx(db(scale) - 20 - CABLE_DB + 10, abs=0.2)
    assert rest < level - 40


def test_two_tones_arrive_with_their_levels(radio):
    radio.dds_dual_tone(500_000, 0.06, 1_000_000, 0.12)
    at, level, rest = peak(after_the_old(radio))
    assert at == pytest.approx(1_000_000, rel=0.01)
    assert level == pytest.approx(db(0.12) - CABLE_DB - 10, abs=0.2)
    assert rest == pytest.approx(db(0.06) - CABLE_DB - 10, abs=0.2)


@pytest.mark.parametrize("mode", AUTOMATIC)
@pytest.mark.parametrize("tx_gain", [-40, -10])
def test_a_buffers_tone_and_noise_come_at_the_aim_of_gain_control(radio, mode, tx_gain):
    radio.gain_control_mode_chan0, radio.tx_hardwaregain_chan0 = mode, tx_gain
    n = np.arange(SAMPLES)
    rng = np.random.default_rng(1)
    for words in (
        2**15 * 0.9 * np.exp(2j * np.pi * 0.1 * n),
        2**13 * (rng.standard_normal(SAMPLES) + 1j * rng.standard_normal(SAMPLES)),
    ):
        radio.tx(words)
        heard = after_the_old(radio, 20)  # 80 ms: from the one signal to the other in steps of a millisecond
        assert rms_dbfs(heard) == pytest.approx(AIM_DBFS, abs=1)
        radio.tx_destroy_buffer()


@pytest.mark.parametrize(
    ("scale", "tx_gain", "rx_gain"),
    [(0.12, 0, 10), (0.25, 0, 10), (0.06, 0, 10), (0.25, 0, 5), (0.25, -10, 10), (0.25, -5, 40)],
)
def test_rssi_is_the_level_whatever_the_gain(radio, scale, tx_gain, rx_gain):
    radio.tx_hardwaregain_chan0, radio.rx_hardwaregain_chan0 = tx_gain, rx_gain
    radio.dds_single_tone(RATE_HZ // 10, scale)
    assert rssi(radio) == pytest.approx(RSSI_REFERENCE_DB - (db(scale) + tx_gain - CABLE_DB), abs=0.5)


@pytest.mark.parametrize("tx_gain", [0, -10, -20])
@pytest.mark.parametrize("mode", AUTOMATIC)
def test_under_gain_control_rssi_and_gain_follow_without_a_buffer(radio, mode, tx_gain):
    radio.tx_hardwaregain_chan0, radio.gain_control_mode_chan0 = tx_gain, mode
    radio.dds_single_tone(RATE_HZ // 10, 0.06)
    level_db = db(0.06) + tx_gain - CABLE_DB
    assert rssi(radio) == pytest.approx(RSSI_REFERENCE_DB - level_db, abs=0.5)
    until(lambda: abs(level_db + radio.rx_hardwaregain_chan0 - AIM_DBFS) <= 1, "a level within 1 dB of the aim", 30)


def test_without_a_signal_the_receiver_hears_its_own_noise(radio):
    """k T B in 4 MHz, and the noise figure."""
    radio.tx_hardwaregain_chan0, radio.rx_hardwaregain_chan0 = -89, 70
    noise_dbfs = 10 * math.log10(1.380649e-23 * 290 * RATE_HZ * 1e3) + NOISE_FIGURE_DB - FULL_SCALE_DBM
    assert rssi(radio) == pytest.approx(RSSI_REFERENCE_DB - noise_dbfs, abs=0.5)
    assert rms_dbfs(after_the_old(radio)) == pytest.approx(noise_dbfs + 70, abs=0.5)
