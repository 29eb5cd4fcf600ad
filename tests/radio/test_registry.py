# SPDX-License-Identifier: GPL-3.0-or-later
"""Radios are opened by their uri. Another radio is one module, ``file_radio``, and one entry."""

import json
import subprocess
import sys

import numpy as np
import pytest

from calibration.cli import app as calibrate
from oac_blocks.dsp.receive.client_stream import AnswerOrder, ClientStream
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.answer import sequence_answer
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.trigger import trigger
from oac_blocks.radio import registry
from oac_blocks.radio.base import RadioConfig, RadioError, StreamConfig
from tests.radio.file_radio import DRIVER

CONFIG = RadioConfig(1e6, 1e9, 1e9, rx_gain_db=0, tx_gain_db=0)
STREAM = StreamConfig(block_samples=4096, kernel_buffers=2, primed_blocks=2)


@pytest.fixture
def file_driver():
    registry.register(DRIVER)
    yield
    registry.unregister(DRIVER)


def test_a_client_answers_a_trigger_that_it_reads_from_a_file(file_driver, tmp_path):
    """Its answer begins in the other file at trigger + turnaround + half a slot, behind the primed silence."""
    at, turnaround, blocks = 5000, 17_000, 8
    rng = np.random.default_rng(1)
    received = 0.05 * (rng.standard_normal(blocks * 4096) + 1j * rng.standard_normal(blocks * 4096))
    received[at : at + len(trigger())] += trigger()
    path = tmp_path / "heard.c64"
    path.write_bytes(received.astype(np.complex64).tobytes())
    layout = RoundLayout(Numerology(sample_rate_hz=1e6), clients=1, slot_samples=4096)
    client = ClientStream(0, layout, TriggerSearch(), turnaround_samples=turnaround, votes=96, correct_cfo=False)
    client.order(AnswerOrder(0, 0, "acquire"))
    happened = []

    def play(radio):
        while True:
            samples, told = client.push(radio.receive().samples)
            happened.extend(told)
            radio.transmit(samples)

    with registry.open_radio(f"file:{path}", CONFIG) as radio:
        radio.start(STREAM)
        with pytest.raises(RadioError, match=f"ends after {blocks * 4096} samples"):
            play(radio)
    (answered,) = [status for status in happened if status.event == "answered"]
    # The bound of the delay at 26 dB per sample and 260 samples is 0.003 samples.
    assert answered.trigger_sample == pytest.approx(at, abs=0.02)
    sent = np.fromfile(tmp_path / "heard.c64.sent", np.complex64)
    begins = STREAM.primed_blocks * STREAM.block_samples + at + turnaround + layout.slot_samples // 2
    burst = sequence_answer(0, layout)
    heard = np.vdot(burst, sent[begins : begins + len(burst)])
    assert abs(heard) ** 2 > 0.99 * np.vdot(burst, burst).real * np.vdot(sent, sent).real


def test_settings_are_checked_against_the_limits_of_the_driver_that_is_asked_for(file_driver, tmp_path):
    """A Pluto cannot tune to 1 MHz, and a file has no gain. Neither device is there, and none is asked."""
    low = RadioConfig(1e6, 1e6, None, rx_gain_db=0, tx_gain_db=0)
    with pytest.raises(ValueError, match="rx_lo_hz must be from 70000000 to 6000000000 Hz"):
        registry.open_radio("ip:127.0.0.1:1", low)
    with pytest.raises(ValueError, match="rx_gain_db must be from 0 to 0 dB, got 40"):
        registry.open_radio(f"file:{tmp_path}/nothing", RadioConfig(1e6, 1e6))
    with pytest.raises(RadioError, match="no file of samples"):
        registry.open_radio(f"file:{tmp_path}/nothing", low)


@pytest.mark.parametrize("uri", ["", "192.168.2.1", "file:/tmp/x", None])
def test_a_uri_that_no_driver_knows_is_refused_with_examples(uri):
    with pytest.raises(ValueError, match=r"uri must begin with one of ip:, usb:, .* as in ip:192\.168\.2\.1 or usb"):
        registry.open_radio(uri)


def test_a_scheme_belongs_to_one_driver(file_driver):
    with pytest.raises(ValueError, match="schemes must be new, got 'file'"):
        registry.register(DRIVER)


def test_the_calibration_command_shows_a_radio_of_any_driver(file_driver, tmp_path, capsys):
    (tmp_path / "x").touch()
    with pytest.raises(SystemExit) as ended:
        calibrate(["probe", f"file:{tmp_path}/x", "--json"])
    assert ended.value.code == 0
    (shown,) = json.loads(capsys.readouterr().out)["radios"]
    assert (shown["model"], shown["temperature_celsius"], shown["hindrances"]) == ("file", None, [])


def test_a_driver_whose_packages_are_missing_says_which():
    """pyadi-iio cannot be imported in this process."""
    code = """
import sys
sys.modules["adi"] = None
from oac_blocks.radio import registry
try:
    registry.probe("ip:127.0.0.1:1")
except ValueError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("radios of the driver pluto need libiio, pyadi-iio and pylibiio 0.25 (gr-oac[pluto])")
