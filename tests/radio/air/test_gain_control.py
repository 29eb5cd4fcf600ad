# SPDX-License-Identifier: GPL-3.0-or-later
"""Automatic gain control against its aim, and RSSI and gain of a receiver that nobody streams from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.radio import ad9361
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.gain_control import AIM_DB, GainControl, settled_db
from oac_blocks.radio.virtual.air.shared_air import SharedAir

TABLE = ad9361.rx_gain_db(2.4e9)
AUTOMATIC = [mode for mode in ad9361.GAIN_MODES if mode != "manual"]


@given(
    mode=st.sampled_from(AUTOMATIC),
    level_db=st.floats(AIM_DB - TABLE.high, AIM_DB - TABLE.low),
    start_db=st.integers(int(TABLE.low), int(TABLE.high)),
)
def test_within_the_gain_table_the_level_settles_within_1_db_of_the_aim(mode, level_db, start_db):
    gain = settled_db(start_db, level_db, mode, TABLE, 0.1)
    assert abs(level_db + gain - AIM_DB) < 1
    assert settled_db(gain, level_db, mode, TABLE, 0.1) == gain  # and stays there


@pytest.mark.parametrize(("level_db", "gain_db"), [(-150.0, TABLE.high), (20.0, TABLE.low)])
@pytest.mark.parametrize("mode", AUTOMATIC)
def test_beyond_the_gain_table_its_end_is_taken(mode, level_db, gain_db):
    assert settled_db(30, level_db, mode, TABLE, 1.0) == gain_db


@pytest.mark.parametrize("block_seconds", [1792 / 61.44e6, 1792 / 2.5e6, 1792 / 5.2e5])
def test_the_slow_control_takes_a_step_in_a_millisecond_at_every_rate(block_seconds):
    """From 71 dB down to 22 by half of what is missing: 24, 12, 6, 4, 2, 1 dB (Python rounds 12.5 and 0.5 down)."""
    control, seconds = GainControl(), 0.0
    while control.gain_db != 22:
        control.step(10 ** (-33 / 10), block_seconds, "slow_attack", 0, TABLE)
        seconds += block_seconds
        assert seconds < 1
    assert seconds == pytest.approx(6e-3, abs=max(1e-3, 1.01 * block_seconds))


def test_the_fast_control_is_there_with_the_first_block():
    factor = GainControl().step(10 ** (-33 / 10), 1e-5, "fast_attack", 0, TABLE)
    assert 20 * math.log10(factor) == pytest.approx(22)


def test_the_control_follows_a_stream_within_its_range_and_leaves_a_manual_gain_alone():
    control = GainControl()
    control.step(10 ** (-20 / 10), 1e-3, "fast_attack", 0, TABLE)
    assert control.gain_db == 9  # -20 dB and 9 dB: -11 dB of full scale
    for _ in range(200):
        control.step(0.0, 1e-3, "slow_attack", 0, TABLE)
    assert control.gain_db == TABLE.high
    assert control.step(10 ** (-20 / 10), 1e-3, "manual", 12, TABLE) == pytest.approx(10 ** (12 / 20))


def air(lock_step, **settings):
    one = SharedAir(VirtualAirSettings((CrystalSettings(),) * 2, **settings), lock_step=lock_step)
    for radio in range(2):
        with one.lock:
            setup = one.context(radio).settings
            setup.rx_lo_hz = setup.tx_lo_hz = 2_400_000_000
            one.context(radio).changed()
    return one


def read(one, radio, name):
    channel = one.context(radio).phy.channel("voltage0", output=False)
    with one.lock:
        return float(channel.attributes[name].get().split()[0])


def change(one, radio, **values):
    with one.lock:
        for name, value in values.items():
            setattr(one.context(radio).settings, name, value)
        one.context(radio).changed()


@pytest.mark.parametrize("lock_step", [False, True])
def test_rssi_follows_the_air_without_a_buffer(lock_step):
    """A tone of a half of full scale (-6 dB) at a TX gain of -10 dB, 40 dB away: -56 dB, and RSSI begins at 11.5 dB."""
    one = air(lock_step)
    assert read(one, 1, "rssi") == 127.75  # nothing at all
    tones = one.context(0).settings.tones
    for tone, phase in ((tones[0], 90.0), (tones[2], 0.0)):
        tone.frequency_hz, tone.phase_degrees, tone.scale = 1e6, phase, 0.5
    change(one, 0)
    assert read(one, 1, "rssi") == pytest.approx(67.5, abs=0.5)
    change(one, 0, tx_gain_db=-20.0)
    assert read(one, 1, "rssi") == pytest.approx(77.5, abs=0.5)
    change(one, 1, rx_lo_hz=2_300_000_000)  # out of the receiver's band
    assert read(one, 1, "rssi") == 127.75
    change(one, 1, rx_lo_hz=2_400_000_000)
    change(one, 0, tx_lo_on=False)
    assert read(one, 1, "rssi") == 127.75


@pytest.mark.parametrize("mode", AUTOMATIC)
def test_the_gain_settles_without_a_buffer(mode):
    one = air(lock_step=True)
    loop = one.open_tx(0, 4096, cyclic=True)
    one.push_tx(0, loop, np.full(4096, 0.25, np.complex64), lambda: False)
    change(one, 1, gain_mode=mode)
    heard_db = 20 * math.log10(0.25) - 10 - 40
    assert read(one, 1, "rssi") == pytest.approx(11.5 - heard_db, abs=0.25)
    assert heard_db + read(one, 1, "hardwaregain") == pytest.approx(AIM_DB, abs=1)
    change(one, 1, gain_mode="manual", rx_gain_db=33)
    assert read(one, 1, "hardwaregain") == 33


def test_asking_for_the_rssi_in_lock_step_changes_nothing_of_what_is_heard():
    def hear(asked):
        one = air(lock_step=True, snr_db=20.0)
        change(one, 1, gain_mode="slow_attack")
        loop = one.open_tx(0, 4096, cyclic=True)
        one.push_tx(0, loop, np.full(4096, 0.25, np.complex64), lambda: False)
        if asked:
            read(one, 1, "rssi"), read(one, 1, "hardwaregain")
        one.open_tx(1, 4096, cyclic=True), one.open_rx(0, 4096, 3)
        queue = one.open_rx(1, 4096, 3)
        while not queue.ready:
            one.step()
        return queue.pop()

    assert np.array_equal(hear(False), hear(True))


def test_rssi_of_a_receiver_at_rest_is_that_of_a_pluto():
    """115 dB, as one shows that was just switched on: 18 MHz of thermal noise and a noise figure of 3 dB."""
    assert read(air(False, noise_figure_db=3.0), 0, "rssi") == pytest.approx(115, abs=0.5)
