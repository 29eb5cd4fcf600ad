# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy scheme through simulated airs: mean and variance are the closed forms."""

import numpy as np
import pytest
from scipy import stats

from fl_app.air import AirSettings, make_air
from fl_app.air.scales import reports
from oac_blocks.dsp.bounds import energy_variance
from oac_blocks.dsp.waveform.schemes.energies import PEAK_ENERGY

# Clients, share of entries that are zero, SNR in dB, copies.
POINTS = [(1, 0.0, 20.0, 1), (2, 0.0, 20.0, 1), (2, 0.5, 0.0, 2), (10, 0.0, 20.0, 1), (10, 0.3, 5.0, 4), (50, 0, 10, 1)]


def entries(n_clients, k, abstain, seed=1):
    """Entries of unequal size, half of them shared by the clients."""
    rng = np.random.default_rng(seed)
    values = rng.standard_t(4, k) + rng.standard_t(4, (n_clients, k))
    values[rng.random(values.shape) < abstain] = 0
    return (0.01 * values.clip(-8, 8)).astype(np.float32)


def closed_form(values, settings, shared):
    """Return mean and variance of each received entry; ``shared``: all copies of a client see one gain."""
    scale = settings.scheme.common_scale(*reports(values))
    sent = scale * values.astype(np.float64)
    assert np.abs(sent).max() <= PEAK_ENERGY
    noise = 10 ** (-settings.snr_db / 10)
    plus, minus = np.maximum(sent, 0).sum(axis=0), np.maximum(-sent, 0).sum(axis=0)
    squares = np.square(sent).sum(axis=0) if shared else 0.0
    variance = energy_variance(plus, minus, noise, settings.repeats, shared_squares=squares)
    return values.mean(axis=0, dtype=np.float64), variance / (scale * len(values)) ** 2


def check_moments(per_round):
    """Check figures (rounds,) whose mean is 0 or 1 by the closed form; rounds are independent of each other."""
    for figures, expected in per_round:
        error = np.std(figures) / np.sqrt(len(figures))
        assert error < 0.1  # a fault that spreads the figures must not widen the bound
        assert abs(np.mean(figures) - expected) < 3 * error


@pytest.mark.parametrize(("n_clients", "abstain", "snr_db", "repeats"), POINTS)
def test_fading_has_the_mean_and_the_variance_of_the_closed_form(n_clients, abstain, snr_db, repeats):
    settings = AirSettings(name="fading", scheme="energy", snr_db=snr_db, repeats=repeats)
    values = entries(n_clients, 500, abstain)
    mean, variance = closed_form(values, settings, shared=False)
    air = make_air(settings, n_clients, seed=5)
    received = np.stack([air.uplink(values, np.arange(n_clients), t).received for t in range(60)])
    deviations = (received - mean) / np.sqrt(variance)
    check_moments([(deviations.mean(axis=1), 0.0), (np.square(deviations).mean(axis=1), 1.0)])


@pytest.mark.parametrize(("n_clients", "abstain", "snr_db", "repeats"), POINTS)
def test_the_waveform_has_the_mean_and_the_variance_of_the_closed_form(n_clients, abstain, snr_db, repeats):
    settings = AirSettings(
        name="waveform", scheme="energy", snr_db=snr_db, repeats=repeats, groups=1, adc_bits=None, clock_ppm=5.0
    )
    values = entries(n_clients, 96, abstain)
    mean, variance = closed_form(values, settings, shared=True)
    air = make_air(settings, n_clients, seed=5)
    received = np.stack(
        [air.uplink(values, np.arange(n_clients), t).received for t in range(500 if n_clients < 10 else 150)]
    )
    deviations = (received - mean) / np.sqrt(variance)
    check_moments([(deviations.mean(axis=1), 0.0), (np.square(deviations).mean(axis=1), 1.0)])


@pytest.mark.parametrize("name", ["fading", "waveform"])
def test_an_entry_beyond_the_limit_is_cut_there(name):
    values = np.zeros((3, 400), np.float32)
    values[:, :7] = 0.01
    values[0, 7] = 100.0  # the medians of the reports do not follow this client
    settings = AirSettings(name=name, scheme="energy", snr_db=None, fading="none", adc_bits=None)
    received = make_air(settings, 3, 1).uplink(values, np.arange(3), 0).received
    limit = PEAK_ENERGY / settings.scheme.common_scale(*reports(values))
    assert limit < 1
    assert received[7] == pytest.approx(limit / 3, rel=1e-3)


def test_the_ideal_air_delivers_the_mean():
    values = entries(4, 50, 0.2)
    settings = AirSettings(name="ideal", scheme="energy")
    np.testing.assert_array_equal(
        make_air(settings, 4, 1).uplink(values, np.arange(4), 0).received,
        values.mean(axis=0, dtype=np.float64).astype(np.float32),
    )


def quality(name, n_clients, repeats, k=20_000):
    """Return Spearman's correlation of magnitudes with the mean gradient's, and the update's cosine with it."""
    rng = np.random.default_rng(1)
    gradients = (rng.standard_t(3, k) + rng.standard_t(3, (n_clients, k))).astype(np.float32)
    settings = AirSettings(name="fading", scheme=name, snr_db=20.0, repeats=repeats)
    scheme = settings.scheme
    payload = np.stack([scheme.payload_of(row, rng) for row in gradients])
    received = make_air(settings, n_clients, 1).uplink(payload, np.arange(n_clients), 0).received
    mean, update = gradients.mean(axis=0), scheme.direction(received)
    cosine = float(update @ mean / np.linalg.norm(update) / np.linalg.norm(mean))
    return float(stats.spearmanr(np.abs(received), np.abs(mean)).statistic), cosine


@pytest.mark.parametrize("n_clients", [2, 10, 50])
@pytest.mark.parametrize("repeats", [1, 4])
def test_magnitudes_of_energies_say_more_of_the_gradient_than_those_of_votes(n_clients, repeats):
    vote, energy = quality("onebit", n_clients, repeats), quality("energy", n_clients, repeats)
    assert energy[0] > vote[0] + 0.2  # what FAIR-k sorts by
    assert energy[1] > vote[1] + 0.05  # what the model moves by
    if repeats == 1:
        assert vote[0] < 0.2  # magnitudes of single-look votes are nearly noise
