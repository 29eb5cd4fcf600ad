# SPDX-License-Identifier: GPL-3.0-or-later
"""All clients in the sync symbols of a burst: who is heard, and where, however they add up."""

import numpy as np
import pytest
import scipy.stats

from oac_blocks.dsp import ofdm
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.receive.shared_fit import Fit, Tones
from oac_blocks.dsp.waveform.client_sequence import sequence_grid
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, shared_root

NUM = Numerology()
STARTS = 18_560 * np.arange(4)


def sync_symbols(amplitudes, delays, snr_db, rng):
    """Four sync symbols of clients with these amplitudes (0 is silent) and delays; the SNR is that of a unit client."""
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    tones = np.exp(-1j * (cyclic_shifts_samples(len(amplitudes), NUM) + delays)[:, None] * omega)
    grid = np.tile(amplitudes @ tones * sequence_grid(shared_root(NUM), NUM), (len(STARTS), 1, 1))
    grid = grid + complex_gaussian(grid.shape, 10 ** (-snr_db / 10), rng)
    return ofdm.modulate(grid.astype(np.complex64), NUM)


def drawn(kind, clients, rng):
    """Amplitudes: all alike; of one step of phase from each to the next; of any phase; of any phase and level."""
    if kind == "equal":
        return np.ones(clients, np.complex128)
    if kind == "ramp":
        return np.exp(2j * np.pi * rng.integers(clients) * np.arange(clients) / clients)
    phases = np.exp(2j * np.pi * rng.random(clients))
    return phases if kind == "phases" else phases * 10 ** (rng.uniform(-6, 6, clients) / 20)


@pytest.mark.parametrize("clients", [1, 2, 33, 50])
def test_a_fit_is_that_of_least_squares(clients):
    """Amplitudes by numpy's solver; a Gauss-Newton step by differences of the residual that the solver leaves."""
    rng = np.random.default_rng(clients)
    tones_of = Tones(NUM, cyclic_shifts_samples(clients, NUM), NUM.fft_size // clients)
    delays = tones_of.shifts + rng.uniform(-0.5, 0.5, clients)
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    x = complex_gaussian(len(omega), 1.0, rng).astype(np.complex128)

    def solved(at):
        tones = np.exp(-1j * at[:, None] * omega)
        amplitudes = np.linalg.lstsq(tones.T, x, rcond=None)[0]
        return amplitudes, x - amplitudes @ tones

    fit = Fit(tones_of, x, delays)
    amplitudes, residual = solved(delays)
    np.testing.assert_allclose(fit.amplitude, amplitudes, atol=1e-7)
    np.testing.assert_allclose(fit.residual, residual, atol=1e-7)
    step, information = fit.step()
    small = 1e-4
    slopes = [
        np.sum(np.abs(solved(delays - d)[1]) ** 2) - np.sum(np.abs(solved(delays + d)[1]) ** 2)
        for d in small * np.eye(clients)
    ]
    # The energy of the residual falls by twice the slope that the step divides by the information.
    np.testing.assert_allclose(information @ step, np.array(slopes) / (4 * small), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("clients", [2, 33, 63, 64])
@pytest.mark.parametrize("kind", ["equal", "ramp", "phases", "levels"])
@pytest.mark.parametrize("snr_db", [5.0, 30.0])
def test_all_are_heard_where_they_are(clients, kind, snr_db):
    rng = np.random.default_rng([clients, round(snr_db)])
    errors = []
    # In time, off by what the trigger's fraction leaves all of them alike, and each by its own.
    for delays in (np.zeros(clients), np.full(clients, rng.uniform(-0.5, 0.5)), rng.uniform(-0.5, 0.5, clients)):
        found = estimate_burst(sync_symbols(drawn(kind, clients, rng), delays, snr_db, rng), STARTS, clients, NUM)
        assert np.isfinite(found.delay_samples).all()
        errors.append((found.delay_samples - delays) / found.sigma_samples)
    errors = np.concatenate(errors)
    low, high = scipy.stats.chi2(len(errors)).ppf([1e-4, 1 - 1e-4]) / len(errors)
    # Neighbours are correlated, so that the mean square scatters more than that of independent ones.
    assert low / 1.3 < np.mean(errors**2) < 1.3 * high


@pytest.mark.parametrize("clients", [2, 33, 63, 64])
@pytest.mark.parametrize("kind", ["equal", "phases"])
@pytest.mark.parametrize("silent_share", [0.2, 0.7])
def test_silent_ones_among_loud_ones_are_heard_no_more_often_than_asked_for(clients, kind, silent_share):
    rng = np.random.default_rng(clients)
    false_alarm, heard, silent = 0.05, 0, 0
    while silent < 100:
        quiet = rng.random(clients) < silent_share
        amplitudes = np.where(quiet, 0, drawn(kind, clients, rng))
        delays = np.full(clients, rng.uniform(-0.5, 0.5))
        found = estimate_burst(
            sync_symbols(amplitudes, delays, 10.0, rng), STARTS, clients, NUM, false_alarm=false_alarm
        )
        present = np.isfinite(found.power)
        assert present[~quiet].all()
        heard, silent = heard + int(present[quiet].sum()), silent + int(quiet.sum())
    assert heard <= scipy.stats.binom(silent, false_alarm).ppf(1 - 1e-5)


def test_sixty_four_alike_that_are_half_a_window_off_look_like_none_off():
    """Why the search prefers "in time": both are the very same samples, so no estimator could tell."""
    rng = np.random.default_rng(1)
    clients, edge = 64, NUM.fft_size // 64 / 2
    in_time = sync_symbols(np.ones(clients), np.zeros(clients), 200.0, rng)
    off = sync_symbols(-np.ones(clients), np.full(clients, edge), 200.0, rng)
    np.testing.assert_allclose(off, in_time, atol=1e-4)


def test_many_weak_ones_do_not_drown_each_other():
    """Fifty clients at -11 dB: 192 subcarriers in four symbols leave 18 dB for each once the others are taken out."""
    rng = np.random.default_rng(2)
    delays = rng.uniform(-0.5, 0.5, (5, 50))
    found = [estimate_burst(sync_symbols(drawn("phases", 50, rng), d, -11.0, rng), STARTS, 50, NUM) for d in delays]
    assert np.mean([np.isfinite(one.power) for one in found]) > 0.98
