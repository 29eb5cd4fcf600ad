# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel buffers: what is queued, what is stale, what is lost, and that the flags say so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.radio.virtual.air.receiver import ReceiveQueue, words_from_samples
from oac_blocks.radio.virtual.air.timeline import Timeline
from oac_blocks.radio.virtual.air.transmitter import Transmitter, converted, samples_from_words
from oac_blocks.radio.virtual.iiod.settings import Tone


def counted(first, n):
    """Samples that say which they are."""
    numbers = np.arange(first, first + n) % 32_768
    return np.stack((numbers, numbers), axis=1).astype(np.int16)


def queue(block=100, buffers=4, mask=3):
    lost = []
    one = ReceiveQueue(block, buffers, mask, lambda: lost.append(True))
    return one, lost


@given(pieces=st.lists(st.integers(1, 250), min_size=1, max_size=12))
def test_a_reader_in_time_gets_every_sample_in_order(pieces):
    one, lost = queue()
    got, place = [], 0
    for piece in pieces:
        one.push(counted(place, piece), place)
        place += piece
        while (block := one.pop()) is not None:
            got.append(block)
            one.release()
    assert not lost
    assert np.array_equal(np.concatenate([*got, np.zeros((0, 2), np.int16)]), counted(0, place // 100 * 100))


def test_after_idling_three_blocks_of_four_are_stale():
    one, lost = queue()
    one.push(counted(0, 100), 0)
    assert one.pop()[0, 0] == 0
    one.push(counted(100, 10_000), 100)  # the reader sleeps, and holds a block
    starts = []
    place = 10_100
    for _ in range(5):
        one.release()
        one.push(counted(place, 100), place)
        starts.append(int(one.pop()[0, 0]))
        place += 100
    assert starts[:3] == [100, 200, 300]
    assert starts[3] >= 10_100
    assert len(lost) == 1  # one gap, one flag


def test_an_overflow_is_told_once_a_gap():
    one, lost = queue(block=10, buffers=2)
    one.push(counted(0, 100), 0)
    one.push(counted(100, 100), 100)
    assert len(lost) == one.overflows == 1
    one.pop()
    one.release()
    one.push(counted(200, 100), 200)
    assert one.overflows == 2


def test_samples_know_their_place_across_a_gap():
    one, _ = queue(block=10, buffers=2)
    one.push(counted(0, 50), 0)  # 20 fit
    one.pop()
    one.release()
    one.push(counted(50, 10), 50)
    assert one.sample(7.25) == 7.25
    assert one.sample(53.5) == 23.5


@pytest.mark.parametrize(("mask", "part"), [(1, 0), (2, 1)])
def test_one_channel_alone(mask, part):
    one, _ = queue(mask=mask)
    words = np.arange(200, dtype=np.int16).reshape(-1, 2)
    one.push(words, 0)
    assert np.array_equal(one.pop(), words[:, part])


def transmitter(rate=1e6):
    lost = []
    return Transmitter(Timeline(rate), lambda: lost.append(True)), lost


def sent(tx, first, n):
    tx.write(first + n)
    return tx.history.windows(np.array([first - tx.first]), n)[0]


def ramp(n):
    return np.arange(1, n + 1, dtype=np.float32).astype(np.complex64) / 4096


def test_blocks_go_back_to_back():
    tx, lost = transmitter()
    tx.open(4, cyclic=False)
    for block in np.split(ramp(400), 4):
        assert not tx.full
        tx.push(block)
    assert tx.full
    assert np.array_equal(sent(tx, 0, 400), ramp(400))
    tx.sent(99)
    assert tx.full
    tx.sent(100)
    assert not tx.full
    assert not lost


def test_too_late_is_an_underflow_and_goes_on_behind_it():
    tx, lost = transmitter()
    buffer = tx.open(4, cyclic=False)
    tx.fill(50)  # before the first block nothing is late
    assert not lost
    tx.push(ramp(100))
    tx.fill(170)
    assert len(lost) == 1
    tx.push(ramp(100))
    assert np.array_equal(sent(tx, 0, 270), np.concatenate((np.zeros(50), ramp(100), np.zeros(20), ramp(100))))
    assert [buffer.place(i) for i in (0, 99, 100, 150)] == [50, 149, 170, 220]


def test_a_cyclic_buffer_goes_round():
    tx, _ = transmitter()
    tx.fill(30)
    tx.open(4, cyclic=True)
    tx.push(ramp(7))
    tx.fill(100)
    assert np.array_equal(sent(tx, 30, 70), np.tile(ramp(7), 10))


def test_nobody_listened_for_long():
    tx, _ = transmitter()
    tx.open(4, cyclic=True)
    tx.push(ramp(7))
    tx.fill(10**12)
    assert tx.end == 10**12
    assert np.array_equal(sent(tx, 10**12 - 70, 70), ramp(7)[(np.arange(10**12 - 70, 10**12)) % 7])


def test_generators_are_sines_of_i_and_q():
    tx, _ = transmitter()
    tx.tones = [Tone(125e3, 90.0, 0.5), Tone(), Tone(125e3, 0.0, 0.5), Tone()]
    tx.fill(1000)
    wanted = 0.5 * np.exp(2j * np.pi * np.arange(1000) / 8)
    assert sent(tx, 0, 1000) == pytest.approx(wanted, abs=2 * 2**-11)


def test_the_converter_has_twelve_bits():
    words = np.array([-32_768, -1, 0, 15, 16, 32_767], np.int16)
    samples = samples_from_words(words, 3)
    assert (samples.view(np.float32) * 2048).tolist() == [-2048, -1, 0, 0, 1, 2047]
    assert np.array_equal(converted(words[::2] + 1j * words[1::2]), samples)


def test_received_words_round_and_clip():
    samples = (np.array([0.4, 0.6, 5000, -5000, 2047.4, -2048.4]) / 2048).astype(np.float32).view(np.complex64)
    assert words_from_samples(samples).reshape(-1).tolist() == [0, 1, 2047, -2048, 2047, -2048]
