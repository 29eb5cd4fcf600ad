# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimates of time, frequency and power are as far off as their Cramer-Rao bounds say."""

import numpy as np
import pytest

from oac_blocks.dsp import bounds, ofdm
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.waveform.client_sequence import client_sequence, sequence_grid
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, shared_root
from oac_blocks.dsp.waveform.trigger import trigger
from tests.support.signals import noise

NUM = Numerology()
TRIALS = 300
START = 60
# The mean square of 300 normal numbers is 1 with a standard error of sqrt(2 / 300) = 0.08.
LOW, HIGH = 0.75, 1.3


def records(waveform, snr_db, rng, cfo_rad=0.0, level=1.0):
    """Noise of power mean(|waveform|^2) / snr with the waveform at fractional times, and these times."""
    n = len(waveform) + 2 * START
    spectrum, omega = np.fft.fft(np.pad(waveform, START)), 2 * np.pi * np.fft.fftfreq(n)
    late = rng.uniform(-0.5, 0.5, TRIALS)
    x = np.fft.ifft(spectrum * np.exp(-1j * late[:, None] * omega)) * np.exp(1j * cfo_rad * np.arange(n))
    x *= np.exp(2j * np.pi * rng.random(TRIALS))[:, None]
    power = np.mean(np.abs(waveform) ** 2) / 10 ** (snr_db / 10)
    return level * (x + noise(x.shape, power, rng)), START + late


def frames(clients, snr_db, rng, drift=0.0, groups=4, levels=1.0):
    """Sync symbols of all clients: (trials, groups, symbol), their starts, mean delays and frequencies."""
    starts = 5000 * np.arange(groups)
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    shifts = cyclic_shifts_samples(clients, NUM)
    delay = rng.uniform(-2, 2, (TRIALS // 4, clients))
    turn = rng.uniform(-2e-4, 2e-4, delay.shape)
    amplitude = levels * np.exp(2j * np.pi * rng.random(delay.shape))
    grid = 0
    for n in range(clients):
        late = shifts[n] + delay[:, n, None] + drift * np.linspace(-0.5, 0.5, groups)
        phase = amplitude[:, n, None] * np.exp(1j * turn[:, n, None] * starts)
        grid = grid + phase[..., None] * np.exp(-1j * late[..., None] * omega)
    grid = grid * sequence_grid(shared_root(NUM), NUM)
    x = ofdm.modulate(grid[..., None, :].astype(np.complex64), NUM)
    return x + noise(x.shape, 10 ** (-snr_db / 10), rng), starts, delay, turn


def mean_square(error, sigma):
    return np.mean((np.asarray(error) / sigma) ** 2)


def power_sigma_db(energy_over_noise):
    """The amplitude is off by a complex number of variance N0 / E, of which half lies along the amplitude."""
    return 20 / np.log(10) * np.sqrt(1 / (2 * energy_over_noise))


def decibels(power):
    return 10 * np.log10(power)


@pytest.mark.parametrize("snr_db", [5.0, 20.0])
def test_trigger(snr_db):
    rng, snr = np.random.default_rng(1), 10 ** (snr_db / 10)
    x, time = records(trigger(), snr_db, rng, cfo_rad=0.015, level=0.5)
    fit = estimate_arrival(x, trigger(), np.rint(time), 0.01)
    # x is turned about its first sample, and time is fitted with it: all three are free of each other's errors.
    time_variance, cfo_variance = bounds.joint_crlb(trigger(), snr)
    assert LOW < mean_square(fit.time_samples - time, np.sqrt(time_variance)) < HIGH
    assert LOW < mean_square(fit.cfo_rad_per_sample - 0.015, np.sqrt(cfo_variance)) < HIGH
    error_db = decibels(np.abs(fit.amplitude) ** 2) - 20 * np.log10(0.5)
    assert LOW < mean_square(error_db, power_sigma_db(snr * len(trigger()))) < HIGH
    assert np.median(fit.snr) == pytest.approx(snr, rel=0.1)


@pytest.mark.parametrize("client", [0, 30])
def test_one_client(client):
    rng, snr_db = np.random.default_rng(2), 8.0
    sequence, snr = client_sequence(client, NUM), 10 ** (snr_db / 10)
    x, time = records(sequence, snr_db, rng, level=2.0)
    fit = estimate_arrival(x, sequence, np.rint(time), fit_cfo=False)
    assert LOW < mean_square(fit.time_samples - time, np.sqrt(bounds.delay_crlb(sequence, snr))) < HIGH
    error_db = decibels(np.abs(fit.amplitude) ** 2) - 20 * np.log10(2.0)
    assert LOW < mean_square(error_db, power_sigma_db(snr * len(sequence))) < HIGH


def test_all_clients():
    """Against the bounds of a client alone: clients share the symbol, which costs up to a fifth."""
    rng, snr_db = np.random.default_rng(3), 10.0
    x, starts, delay, turn = frames(5, snr_db, rng)
    energy = 10 ** (snr_db / 10) * NUM.active_subcarriers * len(starts)
    slope_sigma = np.sqrt(1 / (2 * energy * np.var(starts)))
    ratios = []
    for symbols, d, w in zip(x, delay, turn, strict=True):
        burst = estimate_burst(symbols, starts, 5, NUM, 20)
        power_error_db = decibels(burst.power)
        ratios.append(
            [
                (burst.delay_samples - d) / burst.sigma_samples,
                (burst.cfo_rad - w) / slope_sigma,
                power_error_db / power_sigma_db(energy),
            ]
        )
    squares = np.mean(np.square(ratios), axis=(0, 2))
    assert np.all((squares > LOW) & (squares < 1.45)), squares


def test_a_silent_client_is_not_heard():
    rng = np.random.default_rng(4)
    x, starts, _, _ = frames(3, 10.0, rng, levels=np.array([1.0, 0.0, 1.0]))
    burst = estimate_burst(x[0], starts, 3, NUM, 20)
    for measured in (burst.delay_samples, burst.cfo_rad, burst.power):
        assert np.isnan(measured).tolist() == [False, True, False]


def test_one_symbol_has_no_frequency():
    rng = np.random.default_rng(5)
    x, starts, _, _ = frames(2, 10.0, rng, groups=1)
    assert np.isnan(estimate_burst(x[0], starts, 2, NUM, 20).cfo_rad).all()
