# SPDX-License-Identifier: GPL-3.0-or-later
"""PlutoRadio against virtual Plutos: settings checked and read back, streams, gaps, a device that goes away."""

import collections
import contextlib
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from oac_blocks.radio.base import RadioConfig, RadioError, RadioStopped, StreamConfig
from oac_blocks.radio.virtual.iiod.registers import TX_UNDERFLOW
from tests.support.polling import DEADLINE_SECONDS

pluto = pytest.importorskip("oac_blocks.radio.pluto")
pluto_streams = pytest.importorskip("oac_blocks.radio.pluto_streams")
CONFIG = RadioConfig(1e6, 2.4e9, 2.4e9, rx_gain_db=50, tx_gain_db=-10)
STREAM = StreamConfig(block_samples=2048, kernel_buffers=4, primed_blocks=3, queued_blocks=4)


@pytest.fixture
def radio(plutos):
    """``radio(uri, config)``: open until the test ends."""
    opened = []

    def connect(uri, config=CONFIG, **more):
        opened.append(pluto.PlutoRadio(uri, config, **more))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def test_settings_are_read_back(plutos, radio):
    served = plutos(1)
    wanted = RadioConfig(2.5e6, 915e6, 2.41e9, 33, -12.25, 2e6, 1.5e6)
    there = radio(served.uris[0], wanted).config
    assert there.sample_rate_hz == 2.5e6
    assert there.rx_lo_hz == pytest.approx(915e6, abs=8)
    assert there.tx_lo_hz == pytest.approx(2.41e9, abs=8)
    assert (there.rx_gain_db, there.tx_gain_db) == (33, -12.25)
    assert (there.rx_bandwidth_hz, there.tx_bandwidth_hz) == (2e6, 1.5e6)
    settings = served.air.context(0).settings
    assert settings.gain_mode == "manual"
    assert settings.tx_lo_on


def test_what_the_chip_cannot_do_is_refused_with_what_it_can(plutos, radio):
    """An AD9363A tunes up to 3.8 GHz, and filters 20 MHz at most."""
    served = plutos(1, chip="ad9363a")
    for name, config in (("rx_lo_hz", replace(CONFIG, rx_lo_hz=5e9)), ("tx_lo_hz", replace(CONFIG, tx_lo_hz=100e6))):
        with pytest.raises(RadioError, match=f"{name} must be from 325000000 to 3800000000 Hz for its chip .ad9363a."):
            radio(served.uris[0], config)
    assert served.air.context(0).settings.gain_mode == "slow_attack"  # nothing was set
    assert radio(served.uris[0], replace(CONFIG, sample_rate_hz=30.72e6)).config.rx_bandwidth_hz == 20e6
    with pytest.raises(RadioError, match="rx_bandwidth_hz is 20000000 after it was set to 30000000"):
        radio(served.uris[0], replace(CONFIG, sample_rate_hz=30.72e6, rx_bandwidth_hz=30e6))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_rate_hz", 0.5e6),
        ("sample_rate_hz", 62e6),
        ("rx_lo_hz", 69e6),
        ("tx_lo_hz", 6.1e9),
        ("rx_gain_db", 72),
        ("tx_gain_db", 0.5),
        ("tx_gain_db", float("nan")),
        ("rx_bandwidth_hz", 57e6),
        ("tx_bandwidth_hz", 100e3),
        ("rx_lo_hz", "2.4e9"),
    ],
)
def test_what_the_chip_cannot_do_is_refused_before_it_is_touched(name, value):
    """No radio is there: to look for one would be a RadioError."""
    with pytest.raises(ValueError, match=name):
        pluto.PlutoRadio("ip:127.0.0.1:1", replace(CONFIG, **{name: value}))


def test_a_device_that_does_something_else_is_found_out(plutos, radio):
    """Its oscillator stays where it is, whatever is written."""
    served = plutos(1)
    context = served.air.context(0)
    frequency = context.phy.channel("altvoltage0", True).attributes
    frequency["frequency"] = replace(frequency["frequency"], write=lambda _: None)
    with pytest.raises(RadioError, match="rx_lo_hz is 2400000000 after it was set to 910000000"):
        radio(served.uris[0], replace(CONFIG, rx_lo_hz=910e6))


def test_a_radio_describes_itself(plutos, radio):
    served = plutos(1, chip="ad9363a")
    info = radio(served.uris[0]).describe()
    assert "AD9363A" in info.model
    assert info.sample_rate_hz == CONFIG.sample_rate_hz
    assert info.switches == {"RX LO": "on", "TX LO": "on", "ENSM": "fdd"}
    assert info.hindrances == []


def test_nobody_there():
    with pytest.raises(RadioError, match=r"no Pluto at ip:127\.0\.0\.1:1"):
        pluto.PlutoRadio("ip:127.0.0.1:1")


def test_off_until_a_frequency_is_named(plutos, radio):
    served = plutos(2)
    one = radio(served.uris[0], replace(CONFIG, tx_lo_hz=None))
    settings = served.air.context(0).settings
    assert not settings.tx_lo_on
    assert settings.tx_gain_db == -89.75
    assert not settings.tones_on
    one.start(STREAM)
    assert len(one.receive().samples) == 2048
    with pytest.raises(ValueError, match="tx_lo_hz"):
        one.transmit(np.zeros(2048, np.complex64))


def test_silent_again_when_it_is_closed(plutos, radio):
    """Its oscillator is on, as it was found; but nothing is there to be sent: no stream and no tones."""
    served = plutos(1)
    one = radio(served.uris[0])
    one.start(STREAM)
    one.transmit(np.full(2048, 0.5, np.complex64))
    one.close()
    one.close()
    settings = served.air.context(0).settings
    assert settings.tx_lo_on
    assert settings.tx_gain_db == -10.0
    assert not settings.tones_on
    assert not served.air.nodes[0].tx.streaming
    with pytest.raises(RadioError, match="closed"):
        one.configure(CONFIG)


def run(radio, blocks, seed):
    """Send random blocks, one for each that is heard."""
    rng = np.random.default_rng(seed)
    n = STREAM.block_samples
    sent = (rng.integers(-900, 900, blocks * n) + 1j * rng.integers(-900, 900, blocks * n)) / 2048
    sent = sent.astype(np.complex64)
    radio.start(STREAM)
    heard = []
    for i in range(blocks + STREAM.primed_blocks):
        heard.append(radio.receive())
        at = min(i, blocks - 1) * n
        radio.transmit(sent[at : at + n] if i < blocks else np.zeros(n, np.complex64))
    return sent, heard


def test_streams_are_exact_and_without_gaps(plutos, radio):
    """In lock-step both streams begin together, so what one sends is heard after the blocks that were primed."""
    served = plutos(2, lock_step=True)
    radios = [radio(uri) for uri in served.uris]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, radios, [12, 12], [1, 2]))
    primed = STREAM.primed_blocks * STREAM.block_samples
    for (_, heard), (sent, _) in zip(results, reversed(results), strict=True):
        assert [block.first_sample for block in heard] == [STREAM.block_samples * i for i in range(len(heard))]
        assert not any(block.gaps for block in heard)
        samples = np.concatenate([block.samples for block in heard])
        assert not samples[:primed].any()
        assert np.array_equal(samples[primed:][: len(sent)], sent[: len(samples) - primed])


def test_a_gap_is_told_with_the_next_block(plutos, radio):
    served = plutos(2, lock_step=True)
    radios = [radio(uri) for uri in served.uris]
    served.fault("0.02 underflow 1 500")  # at 1 Msps that is after ten blocks
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, radios, [40, 40], [1, 2]))
    reasons = [[gap for block in heard for gap in block.gaps] for _, heard in results]
    assert reasons == [[], ["the transmitter ran out of samples"]]
    assert [one.underflows for one in radios] == [0, 1]
    assert not served.air.context(1).tx_registers.status & TX_UNDERFLOW  # cleared


def test_streams_end_without_a_complaint_of_libiio(plutos, radio, capfd):
    """It prints to the standard error, whoever is at fault."""
    served = plutos(3, lock_step=True)
    radios = [radio(uri) for uri in served.uris]
    long_enough = threading.Event()

    def go_on(one):
        one.start(STREAM)
        with contextlib.suppress(RadioStopped):
            for blocks in itertools.count():
                one.receive()
                one.transmit(np.zeros(STREAM.block_samples, np.complex64))
                if blocks == 50:
                    long_enough.set()

    threads = [threading.Thread(target=go_on, args=(one,)) for one in radios]
    for thread in threads:
        thread.start()
    assert long_enough.wait(DEADLINE_SECONDS)
    for one in radios:
        one.stop()
    for thread in threads:
        thread.join()
    assert capfd.readouterr().err == ""


def test_lost_samples_are_told_as_well(plutos, radio):
    served = plutos(1, lock_step=True)
    one = radio(served.uris[0])
    served.fault("0.02 overflow 0")
    _, heard = run(one, 40, 1)
    assert [gap for block in heard for gap in block.gaps] == ["received samples were lost"]
    assert one.overflows == 1


def test_a_radio_that_goes_away_is_an_error_and_comes_back(plutos, radio):
    served = plutos(1)
    one = radio(served.uris[0])
    one.start(STREAM)
    one.receive()
    served.fault("unplug 0")
    with pytest.raises(RadioError, match="receive from"):
        collections.deque(iter(one.receive, None), maxlen=0)  # for ever
    one.close()
    with pytest.raises(RadioError, match="no Pluto"):
        pluto.PlutoRadio(served.uris[0])
    assert served.air.context(0).settings.sample_rate_hz == 30_720_000  # as after the power came
    served.fault("plug 0")
    with served.air.lock:
        assert served.air.lock.wait_for(lambda: served.air.nodes[0].plugged, timeout=DEADLINE_SECONDS)
    again = radio(served.uris[0])
    again.start(STREAM)
    assert len(again.receive().samples) == STREAM.block_samples


@pytest.mark.parametrize("doing", ["configure", "start", "receive"])
def test_a_kept_error_keeps_no_context_open(plutos, radio, doing):
    """libiio's objects go with their last reference, and an error keeps those of the functions that it left."""
    served = plutos(1)
    one = radio(served.uris[0])
    if doing == "receive":
        one.start(STREAM)
    call = {"configure": lambda: one.configure(CONFIG), "start": lambda: one.start(STREAM), "receive": one.receive}
    served._hang_up(0)
    with pytest.raises(RadioError) as kept:
        collections.deque(iter(call[doing], None), maxlen=0)  # blocks that were received before may still come
    context = weakref.ref(one._device.ctx)
    one.close()
    assert context() is None
    assert served.uris[0] in str(kept.value)


def test_it_stops_while_it_waits_for_others(plutos, radio):
    """Of two that are expected one is there: nothing moves, and still it can be ended."""
    served = plutos(2, lock_step=True)
    one = radio(served.uris[0])
    one.start(STREAM)
    with pytest.raises(RadioError, match="nothing moved"):
        one.receive(timeout_seconds=0.2)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (one.close(), done.set()))
    thread.start()
    assert done.wait(DEADLINE_SECONDS)
    thread.join()


def test_started_twice_or_not_at_all(plutos, radio):
    one = radio(plutos(1).uris[0])
    with pytest.raises(RadioError, match="start first"):
        one.receive()
    one.start(STREAM)
    with pytest.raises(ValueError, match="start"):
        one.start(STREAM)
    with pytest.raises(ValueError, match="configure"):
        one.configure(CONFIG)
    with pytest.raises(ValueError, match="samples"):
        one.transmit(np.zeros(5, np.complex64))
    one.stop()
    one.start(STREAM)
    assert one.receive().first_sample == 0


def test_a_radio_that_another_program_streams_with_is_named(plutos, radio, client, monkeypatch):
    monkeypatch.setattr(pluto_streams, "_FREE_SECONDS", 0.1)
    served = plutos(1)
    other = client(served.uris[0])
    other.tx_cyclic_buffer = True
    other.tx(np.zeros(1024))
    with pytest.raises(RadioError, match=rf"cannot start {served.uris[0]}: .*busy: another program streams with it"):
        radio(served.uris[0]).start(STREAM)
