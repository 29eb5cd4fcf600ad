# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/results/speed/growth.png, and prints the estimate of a cluster in docs/results/speed.md.

.venv/bin/python -m benchmarks.scale.figures reads the measured figures beside the picture; with --measure it measures
them first, which takes minutes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.scale import growth, large_round

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results" / "speed"
GROWTH, LARGE, PICTURE = FOLDER / "growth.json", FOLDER / "large_round.json", FOLDER / "growth.png"
PANELS = {"cpu_seconds": ("processor time (ms)", 1e-3), "extra_bytes": ("memory on top (MB)", 1e6)}
D, N, RHO = 10**9, 1000, 0.1  # what the estimate is for
LINK_BYTES = 10e9 / 8  # bytes per second of the server's link: 10 Gbit/s


def draw(curves: list[growth.Curve]) -> None:
    """Draw time and memory against size in log-log axes, with the slopes."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, (name, (label, unit)) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        for curve in curves:
            sizes = [point.size for point in curve.points]
            values = [getattr(point, name) / unit for point in curve.points]
            axes.loglog(sizes, values, "o-", label=f"{curve.work}: {curve.slope(name):.2f}")
        axes.set_xlabel("d, k or N")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(title="work: slope", fontsize=7)
    figure.savefig(PICTURE, dpi=120)


def line_of(curve: growth.Curve) -> tuple[float, float]:
    """Return the fixed time and the time per unit of size, in seconds, by least squares."""
    slope, fixed = np.polyfit([one.size for one in curve.points], [one.cpu_seconds for one in curve.points], 1)
    return float(fixed), float(slope)


def estimate(curves: list[growth.Curve], large: dict[str, dict[str, dict[str, float]]]) -> list[tuple[str, str]]:
    """Return the parts of a round of N clients and D parameters, from the measured ones, in words and numbers."""
    k, scale, rounds = RHO * D, D / large_round.SIDE**2, large["round 1"]
    fixed, per_client = line_of(next(curve for curve in curves if curve.against == "N"))
    votes = k / growth.VOTES  # as many times as many votes
    client = rounds["train"]["cpu_seconds"] / large_round.CLIENTS * scale
    return [
        ("FAIR-k, one core", f"{rounds['select']['cpu_seconds'] * scale:.1f} s"),
        ("the server's whole update, FAIR-k included, one core", f"{rounds['update']['cpu_seconds'] * scale:.0f} s"),
        ("a client's work around its own steps, one core", f"{client:.0f} s"),
        ("waveform, one core", f"{(fixed + N * per_client) * votes / 60:.0f} min"),
        ("model and selection to each node, 10 Gbit/s", f"{(4 * D + 8 * k) / LINK_BYTES:.1f} s"),
        ("votes of all clients into the server, 10 Gbit/s", f"{N * k / LINK_BYTES:.0f} s"),
        ("votes of all clients in the server's memory", f"{N * k / 2**30:.0f} GiB"),
        (
            "other memory of the server, with the two clients",
            f"{rounds['round']['peak_bytes'] * scale / 2**30:.0f} GiB",
        ),
    ]


def main(arguments: list[str]) -> None:
    if "--measure" in arguments:
        growth.save(growth.curves(), GROWTH)
        LARGE.write_text(json.dumps(large_round.measure(large_round.SIDE), indent=1) + "\n", encoding="utf-8")
    curves = growth.load(GROWTH)
    draw(curves)
    for part, value in estimate(curves, json.loads(LARGE.read_text(encoding="utf-8"))):
        print(f"| {part} | {value} |")


if __name__ == "__main__":
    main(sys.argv[1:])
