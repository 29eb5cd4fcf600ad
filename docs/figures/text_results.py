# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the table of docs/results/text.md, and draws its picture into docs/results/text/.

.venv/bin/python docs/figures/text_results.py RUNS reads the folders RUNS/waveform-1 to RUNS/ideal-3, which the page's
commands make.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fl_app.config import load_settings
from fl_app.data.texts import carried_text, counted_loss
from fl_app.pictures import COLOURS, save_figure
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder

OUT = Path(__file__).resolve().parents[1] / "results" / "text"
AIRS, SEEDS = ("waveform", "ideal"), (1, 2, 3)
COUNTED = {"single characters": 1, "pairs": 2, "triples": 3}


def rows_of(runs: Path, air: str, seed: int) -> list[RoundFigures]:
    """Return the rounds of a run, up to the config's last one."""
    return RunFolder.open(runs / f"{air}-{seed}").rows()[: load_settings("text").run.rounds]


def spread(values: list[float], digits: int) -> str:
    """Return the mean and the standard deviation over the seeds, then each value."""
    each = ", ".join(f"{value:.{digits}f}" for value in values)
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f} | {each}"


def main(runs: Path) -> None:
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    print("| air | test loss | each seed | accuracy % | each seed | bits per character | vote err. % |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for number, air in enumerate(AIRS):
        seeds = [rows_of(runs, air, seed) for seed in SEEDS]
        losses = [rows[-1].test_loss for rows in seeds]
        accuracies = [100 * rows[-1].test_accuracy for rows in seeds]
        errors = [sum(row.vote_error_rate * row.votes_compared for row in rows) for rows in seeds]
        compared = sum(row.votes_compared for rows in seeds for row in rows)
        bits = np.mean(losses) / math.log(2)
        wrong = 100 * sum(errors) / compared
        print(f"| `{air}` | {spread(losses, 3)} | {spread(accuracies, 1)} | {bits:.2f} | {wrong:.1f} |")
        tested = [[row for row in rows if row.test_loss is not None] for rows in seeds]
        curves = np.array([[row.test_loss for row in rows] for rows in tested])
        done = [row.round + 1 for row in tested[0]]
        axes.plot(done, curves.mean(axis=0), "o-", color=COLOURS[number], markersize=4, label=f"GRU, air {air}")
        axes.fill_between(done, curves.min(axis=0), curves.max(axis=0), color=COLOURS[number], alpha=0.2, linewidth=0)
    for dashes, (name, length) in zip(("--", "-.", ":"), COUNTED.items(), strict=True):
        loss = counted_loss(carried_text(), length)
        print(f"{name}: {loss:.3f}")
        axes.axhline(loss, color="black", linestyle=dashes, linewidth=1, label=f"counts of {name}: {loss:.2f}")
    axes.set(xlabel="communication rounds", ylabel="loss on the test text (nats per character)", xlim=(0, None))
    axes.set_ylim(1.8, 4.5)
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, OUT / "loss")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
