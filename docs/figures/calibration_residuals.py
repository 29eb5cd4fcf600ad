# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/calibration_residuals.png: how well virtual radios answer together, and what they get over.

.venv/bin/python docs/figures/calibration_residuals.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from calibration.faults import Fault
from calibration.simulation import Outcome, loop_for, play, simulate
from calibration.virtual import VirtualRadios, VirtualSettings
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.loop.closed_loop import STATES

OUT = Path(__file__).parents[1] / "images" / "calibration_residuals.png"
PUBLISHED_SAMPLES = 20.0  # 1 us at 20 Msps: Sahin 2022
TOLERANCE = 0.5
ROUNDS = 1000


def radios(clients: int, turnaround_ms: float = 20.0, **more: float) -> VirtualSettings:
    layout = RoundLayout(clients=clients, groups=2, answer_samples=round(20e3 * turnaround_ms))
    return VirtualSettings(layout, **more)


def run(settings: VirtualSettings, rounds: int, enabled: bool = True) -> Outcome:
    loop = loop_for(settings)
    loop.enabled = enabled
    return simulate(settings, rounds, loop)


def by_round(outcome: Outcome) -> np.ndarray:
    """RMS over the clients, of each round."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.mean(outcome.residual_samples**2, axis=1))


def draw_rounds(axes: Axes) -> None:
    axes.semilogy(by_round(run(radios(5), 60, enabled=False)), ":", color="grey", label="left alone")
    axes.axhline(PUBLISHED_SAMPLES, color="tab:red", linestyle="--", label="published testbed: 1 µs")
    axes.axhline(TOLERANCE, color="black", linestyle="--", linewidth=1, label="tolerance")
    for clients, colour in ((5, "tab:blue"), (50, "tab:orange")):
        outcome = run(radios(clients), ROUNDS)
        rms = by_round(outcome)
        axes.semilogy(rms[:60], ".-", color=colour, label=f"{clients} clients")
        late = outcome.residual_samples[5:]
        print(
            f"{clients} clients, {ROUNDS} rounds: after 5 rounds RMS {np.sqrt(np.nanmean(late**2)):.4f}, worst round "
            f"{np.nanmax(rms[5:]):.4f}, largest {np.nanmax(np.abs(late)):.4f}; first payload {rms[2]:.3f}, "
            f"second {rms[3]:.4f}; payload rounds {outcome.kinds.count('payload')}, all tracking {outcome.all_tracking}"
        )
    axes.set(xlabel="round", ylabel="true residual, RMS over the clients (samples)", title="±20 ppm, 20 ms, 15 dB")
    axes.legend(fontsize=8)


def draw_walks(axes: Axes) -> None:
    walks = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    for turnaround_ms, colour in ((5.0, "tab:green"), (20.0, "tab:blue"), (80.0, "tab:purple")):
        rms = [run(radios(5, turnaround_ms, walk_ppm=walk), 200).residual_rms_samples for walk in walks.tolist()]
        axes.loglog(walks, rms, "o-", color=colour, markersize=4, label=f"turnaround {turnaround_ms:g} ms")
        # From one round to the next, two turnarounds later, the rate walks by this: nobody can know it.
        samples = 20e3 * turnaround_ms
        unknown = 1e-6 * samples * walks * np.sqrt(2e-3 * turnaround_ms)
        axes.loglog(walks, unknown, ":", color=colour)
        print(f"turnaround {turnaround_ms:g} ms:", dict(zip(walks.tolist(), np.round(rms, 4).tolist(), strict=True)))
    axes.axhline(TOLERANCE, color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="walk of the clocks after a second (ppm)", ylabel="true residual, RMS (samples)")
    axes.set_title("5 clients, 200 rounds; dotted: walk in a round")
    axes.legend(fontsize=8)


def draw_faults(axes: Axes) -> None:
    faults = (
        Fault(30, 1, "jump", -3.0),
        Fault(60, 1, "gap", 700.0),
        Fault(90, 1, "vanish", rounds=15),
        Fault(150, 1, "echoes", 1.0, rounds=40),
    )
    settings = radios(3)
    loop = loop_for(settings)
    states, residuals, others = [], [], []
    for played in play(loop, VirtualRadios(settings, faults), 220):
        payload = played.plan.kind == "payload"
        states.append(STATES.index(played.views[1].state))
        residuals.append(played.result.residual_samples[1] if payload else np.nan)
        others.append(played.result.residual_samples[0] if payload else np.nan)
    rounds = np.arange(len(states))
    axes.plot(rounds, others, ".", markersize=2, color="black", label="another client")
    axes.plot(rounds, residuals, ".", markersize=4, color="tab:blue", label="this client's payload")
    axes.fill_between(
        rounds,
        0,
        1,
        where=np.array(states) != STATES.index("tracking"),
        step="mid",
        transform=axes.get_xaxis_transform(),
        color="tab:orange",
        alpha=0.35,
        label="not tracking: silent",
    )
    for fault in faults:
        axes.annotate(fault.kind, (fault.round, 3.4), fontsize=8, rotation=30)
    axes.set(xlabel="round", ylabel="true residual (samples)", ylim=(-6.5, 4.5), title="What it gets over")
    axes.legend(fontsize=8, loc="lower left", ncols=2)
    for change in loop.changes:
        if change.client == 1:
            print(change)


def main() -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    draw_faults(right)
    draw_walks(middle)
    draw_rounds(left)
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
