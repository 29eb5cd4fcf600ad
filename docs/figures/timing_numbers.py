# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the numbers of docs/dsp.md, docs/decisions.md and the README about timing and frequency offsets.

.venv/bin/python docs/figures/timing_numbers.py
"""

from __future__ import annotations

import numpy as np

from calibration.simulation import simulate
from calibration.virtual import VirtualSettings
from oac_blocks.dsp import Numerology, bounds, channel, fsk_mv, ofdm, preamble
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.waveform.round_layout import RoundLayout

NUM = Numerology()


def frequency_offsets() -> None:
    """Vote errors of one client in flat Rayleigh fading at 20 dB, against its frequency offset."""
    rng = np.random.default_rng(1)
    votes = rng.choice(np.array([-1, 1], np.int8), 96 * 20)
    bursts = 1500
    print("one client, 20 dB, Rayleigh fading: vote errors, closed form", bounds.mv_error_probability(1, 0, 100.0))
    for hertz in (0.0, 1e3, 4e3, 8e3, 16e3):
        rates = np.empty(bursts)
        for i in range(bursts):
            burst = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)
            link = channel.Link(fading="rayleigh", profile="eva", cfo_hz=hertz)
            heard = channel.transmit(burst[None], [link], channel.Receiver(snr_db=20.0), NUM.sample_rate_hz, rng)
            soft = fsk_mv.detect(ofdm.demodulate(heard.samples[: len(burst)], NUM), len(votes), NUM)
            rates[i] = np.mean(np.sign(soft) != votes)
        print(f"  {hertz / 1e3:4.0f} kHz: {rates.mean():.4f} +- {rates.std() / np.sqrt(bursts):.4f}")


def shared_slot() -> None:
    """Errors of the joint fit of all clients in one symbol, and of each client's own peak."""
    rng = np.random.default_rng(2)
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    for snr_db in (20.0, 30.0):
        snr, trials = 10 ** (snr_db / 10), 1000
        alone = np.sqrt(1 / (2 * 192 * snr * np.var(omega)))
        print(f"shared slot at {snr_db:g} dB; a client alone could reach {alone:.5f} samples")
        for clients in (1, 2, 3, 4, 5, 8, 16, 32, 50):
            delays = rng.uniform(-0.5, 0.5, (trials, clients))
            gains = np.exp(2j * np.pi * rng.random((trials, clients)))
            tones = ofdm.demodulate(preamble.shared_slot(clients, NUM), NUM)[:, 0]
            grid = np.sum(gains[..., None] * tones * np.exp(-1j * omega * delays[..., None]), axis=-2)
            x = ofdm.modulate(grid[:, None].astype(np.complex64), NUM)
            x = x + complex_gaussian(x.shape, 1 / snr, rng)
            joint = preamble.estimate_shared(x, clients, NUM).delay_samples - delays
            peaks = _peaks(x, clients) - delays
            rms = [float(np.sqrt(np.mean(error**2))) for error in (joint, peaks)]
            print(
                f"  {clients:2} clients: joint fit {rms[0]:.5f} ({rms[0] / alone:.2f} of the bound), peaks {rms[1]:.4f}"
            )


def _peaks(x: np.ndarray, clients: int) -> np.ndarray:
    """Return the delay of the highest point of each client's own response, on a fine grid."""
    tones = ofdm.demodulate(preamble.shared_slot(clients, NUM), NUM)[:, 0]
    late = np.linspace(-1, 1, 801)
    ramps = np.exp(2j * np.pi * NUM.subcarrier_frequencies() * late[:, None])
    heard = ofdm.demodulate(x, NUM)[:, 0]
    found = [late[np.abs((heard * np.conj(tone)) @ ramps.T).argmax(axis=1)] for tone in tones]
    return np.transpose(found)


def alignment() -> None:
    """Residuals of the closed loop, against the common instant and of one client against another."""
    for clients in (5, 50):
        settings = VirtualSettings(RoundLayout(clients=clients, groups=2, answer_samples=400_000), seed=1)
        outcome = simulate(settings, 300)
        left = outcome.residual_samples[5:]
        left = left[np.isfinite(left).all(axis=1)]
        rms, spread = np.sqrt(np.mean(left**2)), np.sqrt(2 * np.mean(left.var(axis=1, ddof=1)))
        print(f"closed loop, {clients} clients: RMS {rms:.4f} samples, of two clients against each other {spread:.4f}")


if __name__ == "__main__":
    frequency_offsets()
    shared_slot()
    alignment()
