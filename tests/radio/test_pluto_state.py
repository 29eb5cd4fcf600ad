# SPDX-License-Identifier: GPL-3.0-or-later
"""What another program left on a Pluto is undone and put back, through libiio itself."""

import contextlib
import copy
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from oac_blocks.radio.base import RadioConfig, RadioError, StreamConfig
from tests.support.polling import DEADLINE_SECONDS

iio = pytest.importorskip("iio")
pluto_state = pytest.importorskip("oac_blocks.radio.pluto_state")
pluto = pytest.importorskip("oac_blocks.radio.pluto")

CONFIG = RadioConfig(1e6, 2.4e9, 2.4e9, rx_gain_db=50, tx_gain_db=-10)
STREAM = StreamConfig(block_samples=2048, kernel_buffers=4, primed_blocks=3, queued_blocks=4)


def other_program(uri, *writes):
    """Write as ``iio_attr`` does: device, channel (None: of the device, "debug"), output, attribute, value."""
    context = iio.Context(uri)
    for name, channel, output, attribute, value in writes:
        device = context.find_device(name)
        if channel == "debug":
            device.debug_attrs[attribute].value = value
        else:
            (device.find_channel(channel, output) if channel else device).attrs[attribute].value = value


LEFT = {
    "RX LO": ("ad9361-phy", "altvoltage0", True, "powerdown", "1"),
    "TX LO": ("ad9361-phy", "altvoltage1", True, "powerdown", "1"),
    "ENSM": ("ad9361-phy", None, False, "ensm_mode", "alert"),
    "decimates": ("cf-ad9361-lpc", "voltage0", False, "sampling_frequency", "3840000"),
    "interpolates": ("cf-ad9361-dds-core-lpc", "voltage0", True, "sampling_frequency", "3840000"),
    "loopback": ("ad9361-phy", "debug", False, "loopback", "1"),
}


def settings_of(served):
    """Return what the device is set to, by the virtual Pluto's own account, in full.

    A synthesiser comes back to the same frequency within its step (3 Hz). An automatic gain is the device's own affair.
    """
    settings = copy.deepcopy(served.air.context(0).settings)
    settings.rx_lo_hz, settings.tx_lo_hz = round(settings.rx_lo_hz, -1), round(settings.tx_lo_hz, -1)
    if settings.gain_mode != "manual":
        settings.rx_gain_db = 0
    return settings


@pytest.mark.parametrize("what", LEFT)
def test_what_another_program_left_is_named_undone_and_put_back(plutos, what):
    served = plutos(1)
    uri = served.uris[0]
    other_program(uri, LEFT[what])
    before = settings_of(served)
    state = pluto_state.read_state(uri)
    assert settings_of(served) == before  # reading changes nothing
    (told,) = pluto_state.hindrances(state, transmits=True)
    assert what in told
    assert pluto_state.make_ready(uri, 2.41e9) == state
    ready = settings_of(served)
    assert ready.receives
    assert ready.transmits
    assert (ready.loopback, ready.rx_decimation, ready.tx_interpolation, ready.tones_on) == (0, 1, 1, False)
    assert (ready.tx_lo_hz, ready.tx_gain_db) == (2_410_000_000, -89.75)
    assert pluto_state.hindrances(pluto_state.read_state(uri), transmits=True) == []
    assert pluto_state.restore(uri, state) == []
    assert settings_of(served) == replace(before, tones_on=False)


def test_a_transmitter_without_a_frequency_is_powered_down(plutos):
    served = plutos(1)
    found = pluto_state.make_ready(served.uris[0], None)
    assert found.tx_lo_on
    assert not served.air.context(0).settings.tx_lo_on


def test_a_radio_that_refuses_is_an_error_that_says_what(plutos):
    served = plutos(1)
    power = served.air.context(0).phy.channel("altvoltage1", True).attributes
    power["powerdown"] = replace(power["powerdown"], read=lambda: "1")
    with pytest.raises(RadioError, match=f"{re.escape(served.uris[0])} .*TX LO is powered down"):
        pluto_state.make_ready(served.uris[0], 2.4e9)


@pytest.mark.parametrize("rate", [1e6, 2.5e6, 30.72e6])
@pytest.mark.parametrize(
    "left",
    [
        (),
        tuple(LEFT.values()),
        (
            ("ad9361-phy", "voltage0", False, "gain_control_mode", "manual"),
            ("ad9361-phy", "voltage0", False, "hardwaregain", "17"),
            ("ad9361-phy", "voltage0", True, "hardwaregain", "-33.25"),
            ("ad9361-phy", "voltage0", False, "sampling_frequency", "5000000"),
            ("ad9361-phy", "voltage0", False, "rf_bandwidth", "3000000"),
            ("ad9361-phy", "voltage0", True, "rf_bandwidth", "4000000"),
            ("ad9361-phy", "altvoltage0", True, "frequency", "915000000"),
            ("ad9361-phy", "altvoltage1", True, "frequency", "868000000"),
        ),
    ],
    ids=["as after power-on", "all off", "settings of its own"],
)
def test_a_radio_is_left_as_it_was_found(plutos, rate, left):
    served = plutos(1)
    uri = served.uris[0]
    other_program(uri, *left)
    before, fir = settings_of(served), pluto_state.read_state(uri).fir_on
    with pluto.PlutoRadio(uri, replace(CONFIG, sample_rate_hz=rate)):
        assert settings_of(served) != before
    assert settings_of(served) == replace(before, tones_on=False)
    assert pluto_state.read_state(uri).fir_on == fir


@pytest.mark.parametrize("rate", [600_000, 5_000_000, 61_440_000])
def test_a_rate_that_pyadi_left_comes_back(plutos, client, rate):
    """Each with the filter that this rate allows: 128 taps by 4, or 64 by 2."""
    served = plutos(1)
    client(served.uris[0]).sample_rate = rate
    with pluto.PlutoRadio(served.uris[0], CONFIG):
        assert served.air.context(0).settings.sample_rate_hz == 1_000_000
    assert served.air.context(0).settings.sample_rate_hz == rate


def test_a_tone_does_not_begin_again(plutos, client):
    """Generators that another program left on would transmit as soon as the LO is up again."""
    served = plutos(1)
    client(served.uris[0]).dds_single_tone(100_000, 0.5, 0)
    with pluto.PlutoRadio(served.uris[0], CONFIG):
        assert not served.air.context(0).settings.tones_on
    settings = served.air.context(0).settings
    assert settings.tx_lo_on
    assert not settings.tones_on
    assert settings.tones[0].scale == 0.5  # as it was set


@pytest.mark.parametrize("what", LEFT)
def test_samples_pass_to_the_bit_whatever_was_left(plutos, caplog, what):
    """What one radio sends, the other hears, in both directions; and it is said what was found."""
    served = plutos(2, lock_step=True)
    other_program(served.uris[0], LEFT[what])
    rng = np.random.default_rng(1)
    n = STREAM.block_samples
    sent = ((rng.integers(-900, 900, (2, n)) + 1j * rng.integers(-900, 900, (2, n))) / 2048).astype(np.complex64)

    def talk(radio, words):
        radio.start(STREAM)
        heard = []
        for _ in range(5):
            heard.append(radio.receive().samples)
            radio.transmit(words)
        return heard[-1]

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        radios = [stack.enter_context(pluto.PlutoRadio(uri, CONFIG)) for uri in served.uris]
        first, second = pool.map(talk, radios, sent)
    assert np.array_equal(first, sent[1])
    assert np.array_equal(second, sent[0])
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(served.uris[0])
    assert what in line


def test_a_pyadi_program_is_heard_after_ours(plutos, client):
    """The blocker: a TX LO that stays powered down is heard by nobody, and gives no error."""
    served = plutos(2)
    with pluto.PlutoRadio(served.uris[0], CONFIG):
        pass
    sender, listener = client(served.uris[0]), client(served.uris[1])
    sender.tx_cyclic_buffer = True
    sender.tx(16384 * np.exp(0.3j * np.arange(4096)))
    heard = max(np.mean(np.abs(listener.rx()) ** 2) for _ in range(50))
    assert heard > 1e3


def test_a_uri_is_let_go_of_at_once(plutos):
    """Over USB nobody else could open the radio otherwise. An error that somebody keeps must not keep it open."""
    served = plutos(1)
    power = served.air.context(0).phy.channel("altvoltage0", True).attributes
    power["powerdown"] = replace(power["powerdown"], read=lambda: "1")
    with pytest.raises(RadioError) as kept:
        pluto_state.make_ready(served.uris[0], None)
    deadline = time.monotonic() + 20
    while served._connections[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not served._connections[0]
    assert "RX LO" in str(kept.value)


def test_a_radio_that_is_gone_is_not_waited_for(plutos, caplog):
    """Closing it tells so in one line, and does not try all the settings one after the other."""
    served = plutos(1)
    radio = pluto.PlutoRadio(served.uris[0], CONFIG)
    served.fault("unplug 0")
    with served.air.lock:
        assert served.air.lock.wait_for(lambda: not served.air.nodes[0].plugged, timeout=DEADLINE_SECONDS)
    radio.close()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(f"{served.uris[0]} was not left as it was found: cannot restore")


def test_nobody_there():
    with pytest.raises(RadioError, match=r"no Pluto at ip:127\.0\.0\.1:1"):
        pluto_state.read_state("ip:127.0.0.1:1")
    with pytest.raises(ValueError, match="uri"):
        pluto_state.read_state("")
