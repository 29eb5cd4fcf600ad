# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/majority_vote.png: a burst of votes, what the server reads of it, and how often it errs.

.venv/bin/python docs/figures/majority_vote.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from oac_blocks.dsp import Numerology, bounds, channel, frame, fsk_mv, ofdm, preamble
from oac_blocks.dsp.channel.fading import DelayProfile

NUM = Numerology()
OUT = Path(__file__).parents[1] / "images" / "majority_vote.png"
DENSE = DelayProfile(tuple(i / NUM.sample_rate_hz for i in range(48)), (0.0,) * 48)


def received_burst(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, frame.FrameLayout]:
    """Five clients through an indoor channel, each with its own clock."""
    votes = rng.choice(np.array([-1, 1], np.int8), (5, 96 * 36))
    layout = frame.FrameLayout(36, NUM)
    payload = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)
    bursts = frame.assemble(payload, preamble.shared_slot(5, NUM), layout)
    links = [channel.Link(fading="rayleigh", profile="indoor", clock_ppm=ppm) for ppm in (-20.0, -7.0, 3.0, 11.0, 20.0)]
    samples = channel.transmit(bursts, links, channel.Receiver(snr_db=20), NUM.sample_rate_hz, rng).samples
    return votes, samples, layout


def measured_error_rate(k_plus: int, k_minus: int, snr_db: float, rng: np.random.Generator) -> float:
    votes = np.repeat(np.array([1, -1], np.int8), [k_plus, k_minus])[:, None].repeat(960, axis=1)
    links = [channel.Link(fading="rayleigh", profile=DENSE)] * len(votes)
    wrong = []
    for _ in range(60):
        burst = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)
        receiver = channel.Receiver(snr_db=snr_db)
        x = channel.transmit(burst, links, receiver, NUM.sample_rate_hz, rng, burst.shape[1]).samples
        wrong.append(np.mean(fsk_mv.detect(ofdm.demodulate(x, NUM), 960, NUM) < 0))
    return float(np.mean(wrong))


def main() -> None:
    rng = np.random.default_rng(7)
    votes, samples, layout = received_burst(rng)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")

    grid = ofdm.demodulate(samples[: layout.samples], NUM)
    spectrum = np.full((layout.symbols, NUM.fft_size), 1e-3)
    spectrum[:, NUM.active_bins()] = np.abs(grid) ** 2
    edges_mhz = (np.arange(NUM.fft_size + 1) - NUM.fft_size // 2 - 0.5) * NUM.subcarrier_spacing_hz / 1e6
    times_us = np.arange(layout.symbols + 1) * NUM.symbol_seconds * 1e6
    image = left.pcolormesh(edges_mhz, times_us, 10 * np.log10(spectrum + 1e-3), cmap="magma", vmin=-20, vmax=15)
    for symbol in layout.sync_symbols():
        left.annotate(
            "sync", (edges_mhz[-1], times_us[symbol] + 8), xytext=(3, 0), textcoords="offset points", va="center"
        )
    left.set(xlabel="frequency (MHz)", ylabel="time (µs)", title="Five clients, one burst", ylim=(times_us[-1], 0))
    figure.colorbar(image, ax=left, label="energy (dB)", pad=0.12)

    both = fsk_mv.energies(ofdm.demodulate(frame.payload_of(samples, layout), NUM), 12, NUM)
    entry = np.arange(12)
    middle.bar(entry - 0.2, both[0], 0.4, color="tab:blue", label="energy for")
    middle.bar(entry + 0.2, both[1], 0.4, color="tab:orange", label="energy against")
    for q, total in enumerate(votes[:, :12].sum(axis=0)):
        agrees = np.sign(total) == np.sign(both[0, q] - both[1, q])
        middle.text(q, both[:, q].max() + 0.2, f"{total:+d}", ha="center", color="black" if agrees else "red")
    middle.set(xlabel="entry of the gradient", ylabel="energy (one client's tone = 1)", xticks=entry)
    middle.set_title("Above: the votes' true sum (red: decided wrongly)", fontsize=11)
    middle.margins(y=0.12)
    middle.legend()

    snr_db = np.arange(-10, 31, 5.0)
    fine_db = np.linspace(-10, 30, 200)
    for (k_plus, k_minus), colour in zip(((2, 0), (5, 0), (4, 1)), ("tab:blue", "tab:green", "tab:red"), strict=True):
        curve = bounds.mv_error_probability(k_plus, k_minus, 10 ** (fine_db / 10))
        right.semilogy(fine_db, curve, color=colour, label=f"{k_plus} for, {k_minus} against")
        measured = [measured_error_rate(k_plus, k_minus, snr, rng) for snr in snr_db]
        right.semilogy(snr_db, measured, "o", color=colour, markersize=4)
    right.set(xlabel="SNR of one client (dB)", ylabel="vote error rate", title="Lines: closed form, dots: the waveform")
    right.grid(alpha=0.3)
    right.legend()
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
