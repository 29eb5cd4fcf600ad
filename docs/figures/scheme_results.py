# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the table of docs/results/schemes.md, and draws its picture into docs/results/schemes/.

.venv/bin/python docs/figures/scheme_results.py RUNS reads the comparisons RUNS/vote to RUNS/digital-entries, which the
page's commands make.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from fl_app.pictures import COLOURS, save_figure
from fl_app.runs.figures import air_time_figure
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder

OUT = Path(__file__).resolve().parents[1] / "results" / "schemes"
SCHEMES = {
    "vote": "majority vote",
    "energy": "energy",
    "analog": "analog",
    "digital-votes": "digital, votes",
    "digital-entries": "digital, entries",
}
DASHES = {"fair-k": "-", "top-rand": "--", "top-k": ":"}


def rows_of(folder: Path, policy: str, seeds: list[int]) -> list[list[RoundFigures]]:
    """Return the rounds of each seed of a policy in a comparison's folder."""
    return [RunFolder.open(folder / f"{policy}-seed{seed}").rows() for seed in seeds]


def line(scheme: str, policy: str, one: dict[str, Any], rounds: list[RoundFigures]) -> str:
    """Return one line of the table."""
    each = ", ".join(f"{100 * accuracy:.1f}" for accuracy in one["test_accuracies"])
    spread = f" ± {100 * one['test_accuracy_std']:.1f}" if one["test_accuracy_std"] is not None else ""
    shares = ("-" if one[name] is None else f"{100 * one[name]:.1f}" for name in ("vote_error_rate", "tie_share"))
    cells = (
        SCHEMES[scheme],
        policy,
        f"{rounds[-1].k:,}",
        f"{100 * one['test_accuracy']:.1f}{spread}",
        each,
        f"{one['mean_aou']:.1f}",
        *shares,
        f"{1000 * rounds[0].air_seconds:.1f}",
        f"{1000 * (one['air_seconds'] - rounds[0].air_seconds) / max(1, len(rounds) - 1):.2f}",
        f"{1000 * one['air_joules']:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def main(runs: Path) -> None:
    print(
        "| scheme | policy | k | accuracy % | each seed % | mean AoU | vote err. % | ties % | air ms, round 0 |", end=""
    )
    print(" then a round | client mJ |")
    print(f"|{' --- |' * 11}")
    lines, curves, styles = [], {}, {}
    OUT.mkdir(exist_ok=True)
    for number, (scheme, name) in enumerate(SCHEMES.items()):
        outcome = json.loads((runs / scheme / "compare.json").read_text())
        for policy, one in outcome["policies"].items():
            seeds = rows_of(runs / scheme, policy, outcome["seeds"])
            lines.append((-one["test_accuracy"], line(scheme, policy, one, seeds[0])))
            label = f"{name}, {policy}"
            curves[label], styles[label] = seeds, (COLOURS[number], DASHES[policy])
        shutil.copy(runs / scheme / "compare.json", OUT / f"{scheme}.json")
    print("\n".join(text for _, text in sorted(lines)))
    draw(curves, styles, "air")
    one_policy = {label: seeds for label, seeds in curves.items() if label.endswith(", fair-k")}
    draw(one_policy, styles, "fair-k")


def draw(curves: dict[str, Any], styles: dict[str, Any], name: str) -> None:
    figure = air_time_figure(curves, styles)
    assert figure is not None, "the runs have no time on the air"
    save_figure(figure, OUT / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
