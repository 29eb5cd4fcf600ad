# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of unknown offset, found in the slots of an acquire round."""

import math

import numpy as np
import pytest

from oac_blocks.dsp import Numerology, bounds
from oac_blocks.dsp.receive.acquisition import MARGIN_SAMPLES, acquire, samples_needed
from oac_blocks.dsp.receive.peak_threshold import peak_probability, peak_threshold
from oac_blocks.dsp.waveform.client_sequence import client_sequence
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from tests.dsp.receive.air_records import add_sequences, amplitudes
from tests.support.signals import noise

NUM = Numerology()
SHORT = 4 * NUM.symbol_samples  # the shortest slot


def record(layout, rng, noise_power=1.0):
    return noise(MARGIN_SAMPLES + samples_needed(layout), noise_power, rng)


def acquired(x, layout, answer_at=MARGIN_SAMPLES, **options):
    return acquire(x.astype(np.complex64), layout, answer_at, **options)


def sigma_of(client, snr_db):
    """By the bound; ``snr_db`` is that of a subcarrier, and only some of the subcarriers are used."""
    wave = client_sequence(client, NUM)
    return math.sqrt(bounds.delay_crlb(wave, 10 ** (snr_db / 10) * float(np.mean(np.abs(wave) ** 2))))


@pytest.mark.parametrize("cfo_rad", [0.0, 2e-4])
def test_fifty_clients_in_one_round(cfo_rad):
    rng = np.random.default_rng([1, int(1e6 * cfo_rad)])
    layout = RoundLayout(NUM, 50)
    offsets, power_db = rng.uniform(-4000, 4000, 50), rng.uniform(-3, 30, 50)
    x = record(layout, rng)
    add_sequences(x, layout, MARGIN_SAMPLES, offsets, amplitudes(power_db, rng), cfo_rad)
    found = acquired(x, layout)
    assert np.isfinite(found.offset_samples).all()
    sigma = np.array([sigma_of(client, db) for client, db in enumerate(power_db)])
    # Five standard deviations, and what the frequency passes for: less than 150 samples for a rad/sample.
    assert np.all(np.abs(found.offset_samples - offsets) < 5 * sigma + 150 * cfo_rad)
    np.testing.assert_allclose(found.power_db, power_db, atol=2.0)
    np.testing.assert_allclose(found.snr_db, power_db, atol=2.5)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_offsets_reach_the_bound_and_say_so(snr_db):
    """Sixty clients, one in each slot, nobody in another's way."""
    rng = np.random.default_rng([2, int(snr_db)])
    layout = RoundLayout(NUM, 60, slot_samples=SHORT, clients_per_slot=1)
    error, said = [], []
    for _ in range(4):
        offsets = rng.uniform(-200, 200, 60)
        x = record(layout, rng)
        add_sequences(x, layout, MARGIN_SAMPLES, offsets, amplitudes(np.full(60, snr_db), rng))
        found = acquired(x, layout)
        error.append(found.offset_samples - offsets)
        said.append(found.sigma_samples)
    bound = np.array([sigma_of(client, snr_db) for client in range(60)])
    # The RMS of 240 errors is itself known to 1 / sqrt(480) = 4.6 %.
    assert np.sqrt(np.mean((np.array(error) / bound) ** 2)) == pytest.approx(1, abs=3 * 0.046 + 0.05)
    np.testing.assert_allclose(np.mean(said, axis=(0, 1)), bound.mean(), rtol=0.05)


@pytest.mark.parametrize("apart", [0.0, 3.3, 100.7])
def test_a_client_twenty_decibels_below_another_on_top_of_it(apart):
    rng = np.random.default_rng([3, int(10 * apart)])
    layout = RoundLayout(NUM, 2)
    for _ in range(10):
        first = rng.uniform(-2000, 2000)
        offsets = np.array([first, first + apart])
        x = record(layout, rng)
        add_sequences(x, layout, MARGIN_SAMPLES, offsets, amplitudes([30.0, 10.0], rng), 1e-4)
        found = acquired(x, layout)
        # What the strong one's residual frequency leaves of it (-40 dB) lies on the weak one, 20 dB below.
        np.testing.assert_allclose(found.offset_samples, offsets, atol=0.15)
        np.testing.assert_allclose(found.power_db, [30, 10], atol=1.0)


def test_echoes_of_a_strong_client_do_not_hide_a_weak_one():
    """The offset is that of the strongest path."""
    rng = np.random.default_rng(4)
    layout = RoundLayout(NUM, 3)
    echoes = [(0, 1.0), (6.4, 0.7 * np.exp(1j)), (19.1, 0.5j), (40.7, -0.35)]
    for _ in range(10):
        offsets = rng.uniform(-1000, 1000) + np.array([0.0, 7.7, -30.1])
        x = record(layout, rng)
        add_sequences(x, layout, MARGIN_SAMPLES, offsets, amplitudes([30.0, 10.0, 20.0], rng), 0.0, echoes)
        found = acquired(x, layout)
        np.testing.assert_allclose(found.offset_samples, offsets, atol=0.75)


@pytest.mark.parametrize("false_alarm", [0.2, 0.05])
def test_noise_is_heard_no_more_often_than_asked_for(false_alarm):
    """The closed form is for every delay; the search looks at whole samples, and so finds fewer, but not far fewer."""
    rng = np.random.default_rng([5, int(100 * false_alarm)])
    layout = RoundLayout(NUM, 60, slot_samples=SHORT, clients_per_slot=1)
    rounds = 12
    heard = sum(
        np.count_nonzero(np.isfinite(acquired(record(layout, rng), layout, false_alarm=false_alarm).offset_samples))
        for _ in range(rounds)
    )
    expected = false_alarm * 60 * rounds
    assert 0.2 * expected < heard < expected + 3 * math.sqrt(expected)


@pytest.mark.parametrize("looks", [1, 4])
def test_the_peak_of_noise_is_the_closed_form(looks):
    """Tones at every delay of a window, on a grid of an eighth of a sample."""
    rng = np.random.default_rng([6, looks])
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    window, trials = 40, 1500
    kernel = np.exp(1j * omega[:, None] * np.arange(0, window, 0.125)) / math.sqrt(len(omega))
    peaks = np.empty(trials)
    for trial in range(trials):
        x = rng.standard_normal((looks, len(omega), 2)).view(np.complex128)[..., 0]
        peaks[trial] = np.sum(np.abs(x @ kernel) ** 2, axis=0).max() / np.sum(np.abs(x) ** 2)
    arguments = (window, float(np.std(omega)), len(omega), looks)
    for wanted in (0.1, 0.02):
        limit = peak_threshold(wanted, *arguments)
        assert peak_probability(limit, *arguments) == pytest.approx(wanted, rel=1e-3)
        # A window may cross twice, so the mean number of crossings is a little more than the probability.
        error = 3 * math.sqrt(wanted / trials)
        assert 0.75 * wanted - error < np.mean(peaks > limit) < wanted + error


def test_who_is_silent_or_not_asked_for_is_nan():
    rng = np.random.default_rng(7)
    layout = RoundLayout(NUM, 6, clients_per_slot=2)
    x = record(layout, rng)
    add_sequences(x, layout, MARGIN_SAMPLES, np.zeros(6), amplitudes([0, -np.inf, 10, 10, -np.inf, 0], rng))
    found = acquired(x, layout, clients=[0, 1, 3, 5])
    for values in (found.offset_samples, found.sigma_samples, found.power_db, found.snr_db):
        np.testing.assert_array_equal(np.isfinite(values), [True, False, False, True, False, True])


def test_offsets_up_to_half_a_slot_and_a_fraction_of_the_answer():
    rng = np.random.default_rng(8)
    layout = RoundLayout(NUM, 3, clients_per_slot=1)
    half = layout.slot_samples / 2
    offsets = np.array([-half + 1.2, 0.4, half - 1.3])
    for answer_at in (MARGIN_SAMPLES + 0.45, MARGIN_SAMPLES + 1 - 0.45):
        x = np.append(record(layout, rng, 1e-3), np.zeros(1))
        add_sequences(x, layout, answer_at, offsets, amplitudes(np.zeros(3), rng))
        np.testing.assert_allclose(acquired(x, layout, answer_at).offset_samples, offsets, atol=0.02)


def test_silence_hears_nobody_and_warns_of_nothing():
    layout = RoundLayout(NUM, 5)
    with np.errstate(all="raise"):
        found = acquired(np.zeros(MARGIN_SAMPLES + samples_needed(layout), complex), layout)
    assert np.isnan(found.offset_samples).all()


@pytest.mark.parametrize("level", [1e-5, 1e5])
def test_the_level_does_not_matter(level):
    rng = np.random.default_rng(9)
    layout = RoundLayout(NUM, 3)
    offsets = rng.uniform(-300, 300, 3)
    x = record(layout, rng, 0.01)
    add_sequences(x, layout, MARGIN_SAMPLES, offsets, amplitudes([0, -5, 3], rng))
    found, scaled = acquired(x, layout), acquired(level * x, layout)
    np.testing.assert_allclose(scaled.offset_samples, found.offset_samples, atol=1e-4)
    np.testing.assert_allclose(scaled.power_db - 20 * math.log10(level), found.power_db, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"answer_at": 10.0}, "answer_at"),
        ({"answer_at": math.nan}, "answer_at"),
        ({"clients": [2]}, "clients"),
        ({"false_alarm": 0.0}, "false_alarm"),
        ({"x": np.zeros(5000, np.complex64)}, "answer_at"),
        ({"x": np.zeros(20_000)}, "x"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    layout = RoundLayout(NUM, 2)
    good = {"x": np.zeros(20_000, np.complex64), "answer_at": float(MARGIN_SAMPLES)}
    with pytest.raises(ValueError, match=rf"{name} must be"):
        acquire(layout=layout, **(good | arguments))
