# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual Plutos for a test, and real clients for them that let go of their buffers in time."""

import contextlib

import pytest

from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.server import VirtualPlutos

UNITY_TX_GAIN_DB, UNITY_RX_GAIN_DB = -10, 50  # together they make up for the path loss, 40 dB


def pytest_addoption(parser):
    parser.addoption(
        "--radio-uri", action="store", default=None, help="run the tables on this radio, too: ip:192.168.2.1"
    )


@pytest.fixture
def plutos():
    """Start virtual Plutos: ``plutos(radios, lock_step=..., **air)``."""
    with contextlib.ExitStack() as stack:

        def start(radios=1, *, lock_step=False, expected=None, settings=None, faults=(), **air):
            settings = settings or VirtualAirSettings(air.pop("crystals", (CrystalSettings(),) * radios), **air)
            return stack.enter_context(VirtualPlutos(settings, lock_step=lock_step, expected=expected, faults=faults))

        yield start


@pytest.fixture
def client(plutos):
    """Connect pyadi-iio: ``client(uri)`` sets all that a test of samples needs. It ends before ``plutos`` do."""
    adi = pytest.importorskip("adi")
    connected = []

    def connect(uri, rate=1_000_000, lo=2_400_000_000, rx_gain=UNITY_RX_GAIN_DB, tx_gain=UNITY_TX_GAIN_DB, block=4096):
        radio = adi.Pluto(uri=uri)
        connected.append(radio)
        radio.sample_rate = rate
        radio.rx_lo = radio.tx_lo = lo
        radio.gain_control_mode_chan0 = "manual"
        radio.rx_hardwaregain_chan0 = rx_gain
        radio.tx_hardwaregain_chan0 = tx_gain
        radio.rx_buffer_size = block
        return radio

    yield connect
    for radio in connected:
        radio.tx_destroy_buffer()
        radio.rx_destroy_buffer()
