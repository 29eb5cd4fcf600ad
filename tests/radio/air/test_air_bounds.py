# SPDX-License-Identifier: GPL-3.0-or-later
"""The air when radios come, go and fail: what is true of one that is gone, and that nothing is kept for ever."""

import math
import tracemalloc

import numpy as np
import pytest

from oac_blocks.dsp.channel.crystal import Crystal, CrystalSettings
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.shared_air import SharedAir
from oac_blocks.radio.virtual.air.transmitter import PIECE
from oac_blocks.radio.virtual.faults import RadioFault
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.radio.iiod.test_protocol import Line
from tests.support.polling import until

RATE = 2_500_000
BLOCK = 1 << 16


def air(radios, rates=None, **options):
    one = SharedAir(VirtualAirSettings((CrystalSettings(),) * radios, **options), lock_step=True, expected=0)
    for radio in range(radios):
        with one.lock:
            setup = one.context(radio).settings
            setup.sample_rate_hz = rates[radio] if rates else RATE
            setup.rx_lo_hz = setup.tx_lo_hz = 2_400_000_000
            setup.gain_mode, setup.rx_gain_db, setup.tx_gain_db = "manual", 50, -10
            one.context(radio).changed()
    return one


def never():
    return False


def drain(queue):
    heard = []
    while (words := queue.pop()) is not None:
        heard.append(words)
        queue.release()
    return heard


def hear(one, queue, blocks):
    heard = []
    while len(heard) < blocks:
        one.step()
        heard += drain(queue)
    return np.concatenate(heard[:blocks]) @ [1, 1j]


def send(one, buffer, blocks, queues):
    """Radio 0 sends, all others listen."""
    for _ in range(blocks):
        while one.nodes[0].tx.full:
            one.step()
            for queue in queues:
                drain(queue)
        one.push_tx(0, buffer, np.full(BLOCK, 0.1, np.complex64), never)


def test_the_truth_about_a_radio_that_is_gone_is_nan():
    """Whoever asks for it cannot know that the radio is gone: it may go at any time."""
    one = air(2)
    buffer, queue = one.open_tx(0, BLOCK, cyclic=False), one.open_rx(1, 4096, 3)
    assert one.streams(0) == (None, buffer)
    assert one.streams(1) == (queue, None)
    assert math.isnan(one.arrival(0, buffer, 10.0, 1, queue))  # not handed over yet
    one.push_tx(0, buffer, np.full(BLOCK, 0.1, np.complex64), never)
    hear(one, queue, 2)

    def truth(buffer, queue, sample=10.25):
        return one.arrival(0, buffer, sample, 1, queue), one.paths(0, buffer, sample, 1).centroid_seconds

    assert truth(buffer, queue) == (10.25, 0.0)
    assert math.isnan(one.arrival(0, buffer, float(BLOCK), 1, queue))
    assert math.isnan(one.arrival(0, buffer, -0.5, 1, queue))
    assert math.isnan(one.arrival(0, buffer, 10.25, 1, None))
    one.fault(RadioFault("unplug", None, 0))
    one.step()
    assert one.streams(0) == (None, None)
    assert np.isnan(truth(buffer, queue)).all()
    assert np.isnan(truth(None, queue)).all()
    one.fault(RadioFault("plug", None, 0))
    one.step()
    again = one.open_tx(0, BLOCK, cyclic=False)
    one.push_tx(0, again, np.full(BLOCK, 0.1, np.complex64), never)
    assert np.isnan(truth(buffer, queue)).all()  # a sample of the buffer before, not of this one
    assert np.isfinite(truth(again, queue)).all()
    one.close_rx(1, queue)
    assert math.isnan(truth(again, queue)[0])


def test_an_air_that_fails_is_told_and_lets_nobody_wait():
    def fail(radio):
        raise ArithmeticError(f"radio {radio}\nis unlucky")

    def serve():
        with VirtualPlutos(VirtualAirSettings((CrystalSettings(),) * 2)) as served:
            line = Line(served.addresses[1])
            assert line.ask("OPEN cf-ad9361-lpc 4194304 00000003") == 0
            served.air.unplugged = fail
            served.fault("unplug 0")
            until(lambda: served.failure is not None)
            assert line.file.read() == b""  # the connection is closed
            line.close()

    with pytest.raises(RuntimeError, match="the air stopped: ArithmeticError: radio 0 is unlucky"):
        serve()


def test_a_slow_receiver_hears_a_fast_generator_in_little_memory():
    """2 Msps of 61.44 Msps: eight blocks of the air are 423,000 samples of the transmitter."""
    one = air(2, rates=(61_440_000, 2_083_336))
    with one.lock:
        tones = one.context(0).settings.tones
        for tone, degrees in ((tones[0], 90.0), (tones[2], 0.0)):
            tone.frequency_hz, tone.phase_degrees, tone.scale = 30_000.0, degrees, 0.25
        one.context(0).changed()
    queue = one.open_rx(1, 4096, 3)
    tracemalloc.start()
    heard = hear(one, queue, 2)[4096:]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    turn = np.angle(heard[1:] * heard[:-1].conj()) / (2 * np.pi) * one.context(1).settings.rx_stream_hz
    assert np.abs(heard) == pytest.approx(512, abs=6)  # a quarter of full scale; the filters pass 0.1 dB less or more
    assert np.mean(turn) == pytest.approx(30e3, rel=1e-3)
    assert peak < 20e6


@pytest.mark.parametrize("blocks", range(1, 7))
def test_a_receiver_at_another_rate_begins_where_all_before_is_forgotten(blocks):
    """Its filter would look back at 64 samples more; whether these are still there depends on what came before."""
    one = air(2, rates=(RATE, RATE // 2))
    buffer, tx = one.open_tx(0, BLOCK, cyclic=False), one.nodes[0].tx
    for _ in range(blocks):
        one.push_tx(0, buffer, np.full(PIECE, 0.1, np.complex64), never)
        tx.write(tx.end)
        tx.forget(tx.end)
    queue = one.open_rx(1, 4096, 3)
    send(one, buffer, 2, [queue])
    heard = hear(one, queue, 3)
    assert np.abs(heard[4096:]) == pytest.approx(0.1 * 2048, abs=2)


@pytest.mark.parametrize("leaves", ["closes", "retunes"])
def test_nothing_is_kept_for_a_receiver_that_does_not_listen_any_more(leaves):
    """Radio 1 has taken the transmission at another rate, radio 2 takes it as it is and goes on: 21 MB."""
    one = air(3, rates=(RATE, RATE // 2, RATE))
    queues = [one.open_rx(radio, 8192, 3) for radio in (1, 2)]
    buffer = one.open_tx(0, BLOCK, cyclic=False)
    send(one, buffer, 6, queues)
    if leaves == "closes":
        one.close_rx(1, queues[0])
    else:
        with one.lock:
            one.context(1).settings.rx_lo_hz = 900_000_000
            one.context(1).changed()
    tracemalloc.start()
    send(one, buffer, 40, queues)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6


def test_faults_that_are_over_are_forgotten():
    one = air(1)
    queue = one.open_rx(0, 8192, 3)
    for i in range(50):
        one.fault(RadioFault("fade", i * 1e-4, 0, 0, 10.0, seconds=1e-4))
        one.fault(RadioFault("interferer", i * 1e-4, 0, value=-60.0, seconds=1e-4))
    one.fault(RadioFault("fade", 0.0, 0, 0, 10.0))
    hear(one, queue, 3)
    assert [fault.seconds for fault in one._mixer.fades] == [math.inf]
    assert not one._mixer.interferers


def test_steps_of_a_crystals_rate_add_up_and_are_not_kept():
    """1,000 steps of +1 and -1 ppm by turns, one in a millisecond, then 10 ppm: for any way of asking the same."""

    def crystal():
        one = Crystal(CrystalSettings(5.0), np.random.SeedSequence(1))
        for i in range(1000):
            one.add_ppm((-1.0) ** i, i * 1e-3)
        one.add_ppm(10.0, 1.0)
        return one

    at_once, piece_by_piece = crystal(), crystal()
    for seconds in np.linspace(0, 1.99, 200):
        piece_by_piece.lead_at(seconds)
    assert at_once.lead_at(2.0) == piece_by_piece.lead_at(2.0)
    assert at_once.lead_at(2.0) == pytest.approx(1e-6 * (5.0 * 2 + 0.5 * 1 + 10.0 * 1), rel=1e-9)
    assert not piece_by_piece._steps


def test_a_crystal_that_nobody_asked_for_hours_needs_little_memory():
    one = Crystal(CrystalSettings(5.0, walk_ppm=0.1), np.random.SeedSequence(1))
    tracemalloc.start()
    one.lead_at(3600.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6
