# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/calibration_estimators.png: errors of time and frequency beside their Cramer-Rao bounds.

.venv/bin/python docs/figures/calibration_estimators.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from oac_blocks.dsp import bounds, ofdm
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.waveform.client_sequence import client_sequence, sequence_grid
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, shared_root
from oac_blocks.dsp.waveform.trigger import trigger

OUT = Path(__file__).parents[1] / "images" / "calibration_estimators.png"
TRIALS = 2000
NUM = Numerology()
START = 96
CLIENTS, GROUPS, APART = 5, 4, 5000  # sync symbols of a frame, and the samples from one to the next
SNR_DB = np.array([-20.0, -17.0, -14.0, -11.0, -8.0, -5.0, -2.0, 0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0])
MULTIPATH_DB = np.array([0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0])


def noise(shape: tuple[int, ...], power: float, rng: np.random.Generator) -> np.ndarray:
    return np.sqrt(power / 2) * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


def echoes(spread: float, rng: np.random.Generator) -> np.ndarray:
    """Rayleigh taps (trials, taps) a sample apart, dying away exponentially."""
    count = 1 + int(np.ceil(5 * spread))
    powers = np.exp(-np.arange(count) / spread) if spread else np.ones(1)
    taps = noise((TRIALS, count), 1.0, rng) * np.sqrt(powers / powers.sum())
    return taps if spread else np.exp(2j * np.pi * rng.random((TRIALS, 1)))


def records(
    waveform: np.ndarray, snr_db: float, cfo_rad: float, spread: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The waveform at fractional times in noise, and these times."""
    n = len(waveform) + 2 * START
    omega = 2 * np.pi * np.fft.fftfreq(n)
    late = rng.uniform(-0.5, 0.5, TRIALS)
    taps = echoes(spread, rng)
    through = taps @ np.exp(-1j * np.arange(taps.shape[1])[:, None] * omega)
    x = np.fft.ifft(np.fft.fft(np.pad(waveform, START)) * through * np.exp(-1j * late[:, None] * omega))
    x *= np.exp(1j * cfo_rad * np.arange(n))
    return x + noise(x.shape, float(np.mean(np.abs(waveform) ** 2)) / 10 ** (snr_db / 10), rng), START + late


def peaks(x: np.ndarray, waveform: np.ndarray, cfo_rad: float) -> np.ndarray:
    """Where the waveform correlates best, within 60 samples: what a search would start from."""
    n = x.shape[1]
    straight = x * np.exp(-1j * cfo_rad * np.arange(n))
    response = np.abs(np.fft.ifft(np.fft.fft(straight) * np.conj(np.fft.fft(waveform, n))))
    first = START - 60
    return first + np.argmax(response[:, first : START + 60], axis=1).astype(float)


def trigger_errors(snr_db: float, spread: float, rng: np.random.Generator) -> tuple[float, float]:
    true_cfo = 0.015
    x, time = records(trigger(), snr_db, true_cfo, spread, rng)
    start = peaks(x, trigger(), true_cfo)
    near = true_cfo + rng.uniform(-0.005, 0.005)
    fit = estimate_arrival(x, trigger(), start, near)
    return rms(fit.time_samples - time), rms(fit.cfo_rad_per_sample - true_cfo)


def client_errors(snr_db: float, spread: float, rng: np.random.Generator) -> float:
    wave = client_sequence(10, NUM)
    x, time = records(wave, snr_db, 0.0, spread, rng)
    return rms(estimate_arrival(x, wave, peaks(x, wave, 0.0), fit_cfo=False).time_samples - time)


def shared_errors(snr_db: float, spread: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Of time and frequency of those clients that were heard, and the share of them. One frame has them all."""
    starts = APART * np.arange(GROUPS)
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    late, turn = (
        rng.uniform(-2, 2, (TRIALS // CLIENTS, CLIENTS)),
        rng.uniform(-2e-4, 2e-4, (TRIALS // CLIENTS, CLIENTS)),
    )
    taps = echoes(spread, rng).reshape(TRIALS // CLIENTS, CLIENTS, -1)
    through = taps @ np.exp(-1j * np.arange(taps.shape[-1])[:, None] * omega)
    tones = through * np.exp(-1j * (cyclic_shifts_samples(CLIENTS, NUM) + late)[..., None] * omega)
    phases = np.exp(1j * turn[:, None, :] * starts[:, None])
    grid = np.einsum("tgn,tnf->tgf", phases, tones) * sequence_grid(shared_root(NUM), NUM)
    x = ofdm.modulate(grid[..., None, :].astype(np.complex64), NUM)
    x = (x + noise(x.shape, 10 ** (-snr_db / 10), rng)).astype(np.complex64)
    bursts = [estimate_burst(symbols, starts, CLIENTS, NUM, 20) for symbols in x]
    when = np.array([burst.delay_samples for burst in bursts]) - late
    frequency = np.array([burst.cfo_rad for burst in bursts]) - turn
    heard = np.isfinite(when)
    return rms(when[heard]), rms(frequency[heard]), float(heard.mean())


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else np.nan


def shared_bounds(snr_db: float) -> tuple[float, float]:
    """A client alone in GROUPS symbols of 192 tones: delay, and the slope of the phases."""
    energy = 10 ** (snr_db / 10) * NUM.active_subcarriers * GROUPS
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    starts = APART * np.arange(GROUPS)
    return float(np.sqrt(1 / (2 * energy * np.var(omega)))), float(np.sqrt(1 / (2 * energy * np.var(starts))))


def draw(axes: Axes, snr_db: np.ndarray, error: np.ndarray, bound: np.ndarray, colour: str, label: str) -> None:
    axes.semilogy(snr_db, error, "o-", color=colour, markersize=4, label=label)
    axes.semilogy(snr_db, bound, "--", color=colour, linewidth=1)
    print(f"{label}: over the bound", dict(zip(snr_db.tolist(), np.round(error / bound, 3).tolist(), strict=True)))


def curve(
    measure: Callable[[float, float, np.random.Generator], object], snr_db: np.ndarray, spread: float
) -> np.ndarray:
    return np.array([measure(snr, spread, np.random.default_rng([7, i])) for i, snr in enumerate(snr_db.tolist())])


def main() -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    ratio = 10 ** (SNR_DB / 10)
    joint = np.sqrt([bounds.joint_crlb(trigger(), r) for r in ratio.tolist()])
    own = np.sqrt([bounds.delay_crlb(client_sequence(10, NUM), r) for r in ratio.tolist()])
    shared = np.array([shared_bounds(snr) for snr in SNR_DB.tolist()])

    triggers, clients, frames = (curve(m, SNR_DB, 0.0) for m in (trigger_errors, client_errors, shared_errors))
    print("share of clients heard in frames", dict(zip(SNR_DB.tolist(), frames[:, 2].tolist(), strict=True)))
    draw(left, SNR_DB, triggers[:, 0], joint[:, 0], "tab:blue", "trigger")
    draw(left, SNR_DB, clients, own, "tab:orange", "a client's sequence")
    draw(left, SNR_DB, frames[:, 0], shared[:, 0], "tab:green", f"{CLIENTS} clients in {GROUPS} sync symbols")
    left.set(title="Time, one path", ylabel="RMS error (samples)")
    draw(middle, SNR_DB, triggers[:, 1], joint[:, 1], "tab:blue", "trigger")
    draw(middle, SNR_DB, frames[:, 1], shared[:, 1], "tab:green", f"{CLIENTS} clients in {GROUPS} sync symbols")
    middle.set(title="Frequency, one path", ylabel="RMS error (rad/sample)")
    for axes in (left, middle):
        axes.axvspan(SNR_DB[0], 0, color="grey", alpha=0.1)

    bound = np.sqrt([bounds.joint_crlb(trigger(), 10 ** (snr / 10))[0] for snr in MULTIPATH_DB.tolist()])
    for spread, colour in ((0.5, "tab:purple"), (1.0, "tab:red"), (2.0, "tab:brown")):
        errors = curve(trigger_errors, MULTIPATH_DB, spread)[:, 0]
        label = f"echoes, delay spread {spread:g} samples"
        right.semilogy(MULTIPATH_DB, errors, "o-", color=colour, markersize=4, label=label)
        print(label, np.round(errors, 3).tolist())
    right.semilogy(MULTIPATH_DB, bound, "--", color="tab:blue", linewidth=1, label="bound, one path")
    right.set(title="Time of the trigger's first path, with echoes", ylabel="RMS error (samples)")
    for axes in (left, middle, right):
        axes.set_xlabel("SNR (dB)")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
