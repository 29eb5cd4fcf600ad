# SPDX-License-Identifier: GPL-3.0-or-later
"""Time, frequency and power: as far off as their sigma says, and that is what the bound says."""

import numpy as np
import pytest

from calibration import cfo, gain, timing
from oac_blocks.dsp import bounds, ofdm
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
    return np.mean((error / sigma) ** 2)


@pytest.mark.parametrize("snr_db", [5.0, 20.0])
def test_trigger(snr_db):
    rng = np.random.default_rng(1)
    x, time = records(trigger(), snr_db, rng, cfo_rad=0.015, level=0.5)
    near = np.rint(time)
    when, frequency, power = (m.of_trigger(x, near, 0.01) for m in (timing, cfo, gain))
    # x is turned about its first sample, and time is fitted with it: all three are free of each other's errors.
    assert LOW < mean_square(when.value - time, when.sigma) < HIGH
    assert LOW < mean_square(frequency.value - 0.015, frequency.sigma) < HIGH
    assert LOW < mean_square(power.value - 20 * np.log10(0.5), power.sigma) < HIGH
    bound = np.sqrt(bounds.joint_crlb(trigger(), 10 ** (snr_db / 10)))
    assert np.median(when.sigma) == pytest.approx(bound[0], rel=0.05)
    assert np.median(frequency.sigma) == pytest.approx(bound[1], rel=0.05)


@pytest.mark.parametrize("client", [0, 30])
def test_one_client(client):
    rng = np.random.default_rng(2)
    x, time = records(client_sequence(client, NUM), 8.0, rng, level=2.0)
    when, power = timing.of_client(x, client, NUM, np.rint(time)), gain.of_client(x, client, NUM, np.rint(time))
    assert LOW < mean_square(when.value - time, when.sigma) < HIGH
    assert LOW < mean_square(power.value - 20 * np.log10(2.0), power.sigma) < HIGH


def test_all_clients():
    rng = np.random.default_rng(3)
    x, starts, delay, turn = frames(5, 10.0, rng)
    ratios = []
    for symbols, d, w in zip(x, delay, turn, strict=True):
        when, frequency, power = (m.of_all(symbols, starts, 5, NUM, 20) for m in (timing, cfo, gain))
        errors = (when.value - d, frequency.value - w, power.value)
        sigmas = (when.sigma, frequency.sigma, power.sigma)
        ratios.append([error / sigma for error, sigma in zip(errors, sigmas, strict=True)])
    squares = np.mean(np.square(ratios), axis=(0, 2))
    assert np.all((squares > LOW) & (squares < 1.45)), squares  # clients share the symbol, which costs up to a fifth


def test_who_is_silent_is_not_heard():
    rng = np.random.default_rng(4)
    x, starts, _, _ = frames(3, 10.0, rng, levels=np.array([1.0, 0.0, 1.0]))
    for module in (timing, cfo, gain):
        estimate = module.of_all(x[0], starts, 3, NUM, 20)
        assert np.isnan(estimate.value).tolist() == [False, True, False]


def test_one_symbol_has_no_frequency():
    rng = np.random.default_rng(5)
    x, starts, _, _ = frames(2, 10.0, rng, groups=1)
    estimate = cfo.of_all(x[0], starts, 2, NUM, 20)
    assert np.isnan(estimate.value).all()
    assert np.isnan(estimate.sigma).all()
