# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/calibration_votes.png: how often votes go wrong with the closed loop, without it, and in time.

.venv/bin/python docs/figures/calibration_votes.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate

OUT = Path(__file__).parents[1] / "images" / "calibration_votes.png"
CLIENTS, VOTES, ROUNDS = 5, 1920, 24
SNRS_DB = (-5.0, 0.0, 5.0, 10.0, 15.0, 20.0)
CASES = {  # name, marker, colour
    "off": ("20 ppm, no calibration", "s", "tab:red"),
    "loop": ("20 ppm, closed loop", "o", "tab:blue"),
    "assumed": ("all exactly in time", "x", "black"),
}


def unanimous(rng: np.random.Generator) -> np.ndarray:
    """All clients of one mind: then the closed form is small, and errors show."""
    return np.repeat(rng.choice(np.array([-1, 1], np.int8), (1, VOTES)), CLIENTS, axis=0)


def errors(calibration: str, snr_db: float) -> tuple[float, float]:
    """Mean error rate over rounds, and its standard error from their scatter."""
    settings = AirSettings(calibration=calibration, snr_db=snr_db, profile="eva", timing_sigma_samples=0.0)
    air, rng, rates = make_air(settings, CLIENTS, 1), np.random.default_rng(2), []
    for t in range(ROUNDS):
        votes = unanimous(rng)
        wrong, compared = vote_error_rate(votes, air.uplink(votes, np.arange(CLIENTS), t).received)
        rates.append(wrong / compared)
    return float(np.mean(rates)), float(np.std(rates, ddof=1) / np.sqrt(ROUNDS))


def main() -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    fine = np.linspace(SNRS_DB[0], SNRS_DB[-1], 100)
    votes = unanimous(np.random.default_rng(0))
    closed = [expected_vote_error_rate(votes, 10 ** (snr_db / 10)) for snr_db in fine]
    axes.semilogy(fine, closed, color="grey", label="closed form")
    for calibration, (label, marker, colour) in CASES.items():
        points = np.array([errors(calibration, snr_db) for snr_db in SNRS_DB])
        print(calibration, points.round(5).tolist())
        axes.errorbar(
            SNRS_DB, points[:, 0], 3 * points[:, 1], fmt=marker, color=colour, capsize=3, label=label, fillstyle="none"
        )
    axes.set_xlabel("SNR of a client's subcarrier (dB)")
    axes.set_ylabel("share of wrong votes")
    axes.set_title("Five clients of one mind; bars: three standard errors")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(OUT, dpi=120)


if __name__ == "__main__":
    main()
