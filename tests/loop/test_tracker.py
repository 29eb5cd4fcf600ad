# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
import scipy.linalg

from oac_blocks.loop.drift import ClockDrift
from oac_blocks.loop.states import LoopSettings
from oac_blocks.loop.tracker import Tracker

SECONDS = 0.04


def samples_a_ppm(settings):
    return 1e-6 * settings.turnaround_samples


def followed(settings, needed, sigma, rng):
    """Predictions of each round's correction (from the second on) and their variances."""
    tracker = Tracker(settings)
    predicted, variances = [], []
    for i, z in enumerate(needed + sigma * rng.standard_normal(len(needed))):
        if i == 0:
            tracker.start(z, sigma**2)
            continue
        prediction, variance = tracker.predict(SECONDS)
        predicted.append(prediction)
        variances.append(variance)
        tracker.take(z, sigma**2, SECONDS)
    return np.array(predicted), np.array(variances), tracker


@pytest.mark.parametrize("sigma", [0.003, 0.03, 0.3])
def test_prediction_has_the_variance_of_the_riccati_equation(sigma):
    """Of the same model, solved by scipy; the rate walks exactly as assumed and has no trend."""
    settings = LoopSettings(turnaround_samples=400_000, walk_ppm=0.3, trend_ppm_per_second=0.0)
    step = samples_a_ppm(settings) * settings.walk_ppm * np.sqrt(SECONDS)
    best = scipy.linalg.solve_discrete_are(np.eye(1), np.eye(1), [[step**2]], [[sigma**2]])[0, 0]
    rng = np.random.default_rng(1)
    needed = np.cumsum(step * rng.standard_normal(4000))
    predicted, variances, _ = followed(settings, needed, sigma, rng)
    error = np.mean((predicted - needed[1:])[100:] ** 2)
    # Having to learn walk and scatter costs something.
    assert error < 1.15 * best
    assert 0.9 * best < np.mean(variances[100:]) < 1.5 * best


@pytest.mark.parametrize(("walk", "scatter"), [(0.5, 0.0), (0.0, 2.0), (0.2, 1.0)])
def test_walk_and_scatter_are_told_apart(walk, scatter):
    """Both are far beyond what the settings and the bound say; a filter that knew them is the best that there is."""
    settings = LoopSettings(turnaround_samples=400_000, walk_ppm=0.1)
    rng = np.random.default_rng(2)
    needed = np.cumsum(walk * rng.standard_normal(4000))
    tracker, predictions = Tracker(settings), []
    tracker.start(0.0, 1e-4)
    for z in needed:
        predictions.append(tracker.predict(SECONDS)[0])
        tracker.take(z + scatter * rng.standard_normal(), 1e-4, SECONDS)
    step = samples_a_ppm(settings) * settings.walk_ppm * np.sqrt(SECONDS)
    noise = np.hypot(scatter, 0.01)
    best = scipy.linalg.solve_discrete_are(np.eye(1), np.eye(1), [[max(walk, step) ** 2]], [[noise**2]])[0, 0]
    error = np.mean((np.array(predictions) - needed)[200:] ** 2)
    assert error < 1.5 * best + (0.1 * scatter) ** 2
    assert tracker.scatter_samples == pytest.approx(scatter, abs=0.2 + 0.4 * scatter)


def test_a_trend_is_followed():
    """A rate that swings by 1 ppm in 20 s, rounds of 1.5 s: without a slope the lag would be a round's change."""
    settings = LoopSettings(turnaround_samples=1_100_000, sample_rate_hz=2.5e6, walk_ppm=0.01)
    seconds = 1.5
    swing = samples_a_ppm(settings) * 1.0
    needed = swing * np.sin(2 * np.pi * np.arange(400) * seconds / 20)
    tracker, errors = Tracker(settings), []
    tracker.start(needed[0], 1e-6)
    for z in needed[1:]:
        errors.append(tracker.predict(seconds)[0] - z)
        tracker.take(z, 1e-6, seconds)
    change = np.sqrt(np.mean(np.diff(needed) ** 2))
    assert np.sqrt(np.mean(np.square(errors[50:]))) < 0.6 * change


def test_a_long_pause_carries_a_trend_only_so_far_and_doubt_grows():
    settings = LoopSettings()
    tracker = Tracker(settings)
    tracker.start(0.0, 1e-6)
    for i in range(1, 20):
        tracker.take(0.01 * i, 1e-6, 1.0)
    soon, soon_variance = tracker.predict(1.0)
    late, late_variance = tracker.predict(3600.0)
    assert abs(late - soon) <= 0.011 * settings.trend_seconds
    assert late_variance > 10 * soon_variance


def test_what_is_unlearnt_leaves_no_trace():
    def tracker():
        it = Tracker(LoopSettings())
        it.start(0.0, 1e-4)
        for z in np.random.default_rng(1).standard_normal(40) * 0.01:
            it.take(z, 1e-4, SECONDS)
        return it

    one, other = tracker(), tracker()
    one.learn(5.0, 1e-4, SECONDS)
    assert one.predict(SECONDS)[1] > other.predict(SECONDS)[1]
    one.unlearn()
    assert one.predict(SECONDS) == other.predict(SECONDS)


@pytest.mark.parametrize("ppm", [-20.0, 0.0, 13.7])
def test_drift_settles_on_the_rate(ppm):
    rng = np.random.default_rng(3)
    drift = ClockDrift(20e6, 0.01)
    server = 1000.0 + 800_000.0 * np.arange(200)
    client = 5e6 + server * (1 + 1e-6 * ppm)
    assert np.isnan(drift.ppm)
    for s, c in zip(server, client, strict=True):
        drift.heard(c + 0.01 * rng.standard_normal(), s, 0.01)
    # Two triggers alone would give 0.01 sqrt(2) / 800,000 = 0.018 ppm.
    assert drift.ppm == pytest.approx(ppm, abs=0.009)
    assert drift.sigma_ppm < 0.009


def test_drift_survives_a_false_trigger_and_a_jump():
    drift = ClockDrift(20e6, 0.01)
    jump = 0.0
    for n in range(100):
        jump = 777.0 if n >= 60 else 0.0
        stray = 5000.0 if n == 30 else 0.0
        drift.heard(800_000.0 * n * (1 + 5e-6) + jump + stray, 800_000.0 * n, 0.01)
        if n > 3:
            assert drift.ppm == pytest.approx(5.0, abs=0.1)


def test_drift_takes_a_server_that_began_anew():
    drift = ClockDrift(20e6, 0.01)
    for first in (1e9, 0.0):
        for n in range(10):
            drift.heard(first + 800_000.0 * n * (1 + 5e-6), first + 800_000.0 * n, 0.01)
    assert drift.ppm == pytest.approx(5.0, abs=0.1)
