# SPDX-License-Identifier: GPL-3.0-or-later
"""A count that is sent through a loopback: where it breaks, what is lost, and what is silence."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from calibration import loopback
from calibration.cli import app
from calibration.loopback import Count, check_count, counting_samples
from oac_blocks.radio.base import RadioConfig, StreamConfig
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos


def silence(count):
    return np.zeros(count, np.complex64)


@given(st.integers(0, loopback.PERIOD_SAMPLES - 1), st.integers(1, 500))
def test_samples_say_where_they_belong(first, count):
    numbers = loopback.numbers_of(counting_samples(first, count))
    assert np.array_equal(numbers, (first + np.arange(count)) % loopback.PERIOD_SAMPLES)


@given(st.integers(0, 300), st.integers(64, 300), st.integers(1, 100_000), st.integers(2, 300))
def test_lost_samples_are_one_break_of_their_number(silent, before, lost, after):
    samples = np.concatenate(
        (silence(silent), counting_samples(0, before + 1), counting_samples(before + 1 + lost, after))
    )
    assert check_count(samples) == Count(silent, 1, lost, 0)
    assert check_count(samples[: silent + before + 1]) == Count(silent, 0, 0, 0)


@given(st.lists(st.tuples(st.integers(2, 300), st.integers(1, 5000), st.integers(0, 3)), min_size=1, max_size=8))
def test_each_silence_is_one_break_of_its_length(pieces):
    """After each piece of the count comes silence, and some numbers may be lost in it."""
    parts, number = [silence(100), counting_samples(0, 65)], 65
    for count, silent, lost in pieces:
        parts += [counting_samples(number, count), silence(silent)]
        number += count + lost
    parts.append(counting_samples(number, 65))
    expected_silence, expected_lost = sum(piece[1] for piece in pieces), sum(piece[2] for piece in pieces)
    assert check_count(np.concatenate(parts)) == Count(100, len(pieces), expected_lost, expected_silence)


def test_silence_at_the_end_is_one_break():
    assert check_count(np.concatenate((counting_samples(7, 100), silence(1000)))) == Count(0, 1, 0, 1000)


def test_a_block_that_comes_twice_has_lost_nothing():
    twice = np.concatenate([counting_samples(0, 1000), counting_samples(900, 1000)])
    assert check_count(twice) == Count(0, 1, 0, 0)


def test_nothing_came_back():
    assert check_count(silence(1000)) == Count()
    assert check_count(silence(3)) == Count()


def test_gaps_of_a_radio_are_told_with_their_lengths():
    """Three underflows of known lengths, in the stream that goes through libiio."""
    pluto = pytest.importorskip("oac_blocks.radio.pluto")
    with VirtualPlutos(spread(1, 1), lock_step=True) as served:
        stream = StreamConfig(4096, 8, 6, 4)
        with pluto.PlutoRadio(served.uris[0], RadioConfig(1e6)) as radio:
            radio.set_digital_loopback(True)
            for line in ("0.05 underflow 0 500", "0.08 underflow 0 3000", "0.11 underflow 0 1"):
                served.fault(line)
            result = loopback.run_loopback(radio, stream, 60)
    assert (result.breaks, result.lost_samples, result.silent_samples) == (3, 0, 3501)
    assert not result.whole
    assert set(result.gaps) == {"the transmitter ran out of samples"}
    assert result.samples <= 60 * 4096


def test_the_command_tells_of_a_broken_stream():
    pytest.importorskip("oac_blocks.radio.pluto")
    with VirtualPlutos(spread(1, 1), lock_step=True) as served:
        served.fault("0.05 underflow 0 700")
        options = ["--rate", "1e6", "--seconds", "0.2", "--block", "4096"]
        result = CliRunner().invoke(app, ["loopback-test", served.uris[0], *options, "--json"])
    assert result.exit_code == 1, result.output
    (rate,) = json.loads(result.stdout)["rates"]
    assert (rate["breaks"], rate["lost_samples"], rate["silent_samples"], rate["whole"]) == (1, 0, 700, False)
