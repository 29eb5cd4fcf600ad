# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled loops against the plain definitions of what they compute, and that they release Python's lock."""

import numpy as np
import pytest
import scipy.fft

from oac_blocks.dsp.channel import stream_kernels
from oac_blocks.dsp.receive import trigger_kernels
from oac_blocks.dsp.receive.detection import CFO_BANK_RAD, trigger_metric
from oac_blocks.dsp.receive.trigger_bank import FFT_SIZE, GATE_SPAN, ROW_SAMPLES, Bank
from oac_blocks.dsp.receive.trigger_gate import TriggerGate
from oac_blocks.dsp.waveform.trigger import EDGE_SAMPLES, SEGMENT_SAMPLES, trigger
from tests.support.signals import error_db, noise


def kernels_of(module):
    return {name: value for name, value in vars(module).items() if hasattr(value, "targetoptions")}


@pytest.mark.parametrize("module", [stream_kernels, trigger_kernels])
def test_kernels_release_the_lock_and_are_compiled_before_the_first_chunk(module):
    assert len(kernels_of(module)) > 3
    for name, kernel in kernels_of(module).items():
        assert kernel.targetoptions["nogil"], name
        assert kernel.signatures, name


def test_random_words_are_those_of_numpy():
    generator = np.random.SFC64(7)
    state, words = generator.state["state"]["state"].copy(), np.empty(1000, np.uint64)
    stream_kernels.draw_words(state, words)
    np.testing.assert_array_equal(words, generator.random_raw(1000))
    np.testing.assert_array_equal(state, generator.state["state"]["state"])


def test_noise_is_the_box_muller_transform_of_the_words():
    power, samples = 0.3, 5000
    words = np.random.SFC64(3).random_raw(samples)
    radius = np.sqrt(-power * np.log((words & 0xFFFFFFFF) * 2.0**-32 + 2.0**-33))
    expected = radius * np.exp(2j * np.pi / 65536 * ((words >> np.uint64(32)) & np.uint64(0xFFFF)))
    x = np.ones(samples, np.complex64)
    stream_kernels.add_gaussian(x.view(np.float32), np.random.SFC64(3).state["state"]["state"], np.float32(power))
    # Where the radius is small its logarithm has the rounding error of a float32 near 1, 6e-8.
    np.testing.assert_allclose(x - 1, expected, atol=2e-4)
    assert error_db(x - 1, expected) < -120


@pytest.mark.parametrize("first", [0, 70])
def test_echoes_are_a_convolution_that_turns_with_the_carrier(first):
    rng = np.random.default_rng(1)
    block, samples, past, rad = 100, 257, 20, 0.03
    heard = noise(past + samples, 1.0, rng).astype(np.complex64)
    taps, delays = np.array([0.8, 0.3 - 0.2j, -0.1j], np.complex64), np.array([0, 3, 17])
    response = np.zeros(18, np.complex64)
    response[delays] = taps
    n = np.arange(samples)
    expected = 1 + np.convolve(heard, response)[past : past + samples] * np.exp(1j * rad * (first + n))
    out = np.ones(samples, np.complex64)
    turn = np.exp(1j * rad * np.arange(block)).astype(np.complex64)
    phases = np.exp(1j * rad * block * np.arange(4)).astype(np.complex64)
    pairs = (out.view(np.float32), heard.view(np.float32))
    stream_kernels.add_echoes(*pairs, taps, delays, turn.view(np.float32), phases, first)
    np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("bank_rad", [(0.03,), CFO_BANK_RAD])
def test_the_gate_is_the_metric_of_the_plain_definition(bank_rad):
    rows, rng = 2, np.random.default_rng(1)
    span = rows * ROW_SAMPLES - GATE_SPAN
    x = noise(EDGE_SAMPLES + rows * ROW_SAMPLES + FFT_SIZE, 1.0, rng).astype(np.complex64)
    x[700 : 700 + len(trigger())] += 2 * trigger() * np.exp(0.03j * np.arange(len(trigger())))
    found = TriggerGate(rows).candidates(x, EDGE_SAMPLES, Bank.of(bank_rad, 3), 1e-9)
    metric = trigger_metric(x[EDGE_SAMPLES : EDGE_SAMPLES + span + GATE_SPAN + SEGMENT_SAMPLES - 1], bank_rad)
    first = 700 + EDGE_SAMPLES
    assert first in found.sample
    np.testing.assert_allclose(found.metric, metric.max(axis=0)[found.sample - EDGE_SAMPLES], atol=1e-5)
    # The whole waveform is correlated with the frequency next to its own on the fine grid.
    at = list(found.sample).index(first)
    window = x[700 : 700 + len(trigger())]
    whole = abs(np.vdot(trigger() * np.exp(0.03j * np.arange(len(trigger()))), window))
    assert found.strength[at] == pytest.approx(whole / np.linalg.norm(trigger()) / np.linalg.norm(window), abs=0.03)


def test_bad_samples_are_silenced_and_counted():
    rows = np.empty((1, FFT_SIZE), np.complex64)
    x = np.ones(FFT_SIZE, np.complex64)
    x[100:103] = np.nan, np.inf, 1e30
    norm = np.empty(FFT_SIZE, np.float32)
    arguments = (np.float32(1e30), np.float32(1e-10), np.float32(1e-38))
    assert trigger_kernels.prepare(x.view(np.float32), *arguments, norm, rows.view(np.float32)) == 3
    assert not x[100:103].any()
    np.testing.assert_array_equal(rows[0], x)
    np.testing.assert_allclose(norm[:ROW_SAMPLES][[0, 200]], 1 / (4 * np.sqrt(SEGMENT_SAMPLES)), rtol=1e-6)


def test_rows_are_filtered_one_by_one():
    rng = np.random.default_rng(1)
    rows, spectrum = (noise(n * FFT_SIZE, 1.0, rng).astype(np.complex64) for n in (3, 1))
    out = np.empty((3, FFT_SIZE), np.complex64)
    rows = rows.reshape(3, FFT_SIZE)
    trigger_kernels.filtered(rows.view(np.float32), spectrum.view(np.float32), out.view(np.float32))
    np.testing.assert_allclose(scipy.fft.ifft(out), scipy.fft.ifft(rows * spectrum), atol=1e-6)
