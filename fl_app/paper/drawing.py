# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the paper's figures from runs: lines are means over the seeds, bands are standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fl_app.pictures import COLOURS, DASHES
from fl_app.runs.sweeps.plan import SweepRun, value_text_of

if TYPE_CHECKING:
    from fl_app.theory.aou import AgeDistribution

Runs = Mapping[str, Sequence[SweepRun]]  # by the title of the trial


def draw(kind: str, title: str, by_trial: Runs, points: Mapping[str, Sequence[Any]]) -> Figure:
    """Draw a figure of training runs."""
    if kind == "ages":
        figure, (left, right) = _canvas(2, title)
        ((name, runs),) = by_trial.items()
        _over_rounds(left, runs, lambda row: row.mean_aou, "mean age of update (rounds)")
        _participation(right, runs)
        left.set_title(name)
        right.set_title("how often entries were sent")
    elif kind == "ratios":
        figure, (axes,) = _canvas(1, title)
        ((name, own),) = points.items()
        _over_ratio(axes, own)
        axes.set_title(name)
    else:
        figure, panels = _canvas(len(by_trial), title)
        for axes, (name, runs) in zip(panels, by_trial.items(), strict=True):
            _over_rounds(axes, runs, lambda row: _percent(row.test_accuracy), "test accuracy (%)")
            axes.set_title(name)
    return figure


def draw_ages(found: Mapping[str, AgeDistribution]) -> Figure:
    """Draw distributions of the age of update."""
    figure, (axes,) = _canvas(1, "Distribution of the age of update")
    for number, (name, one) in enumerate(found.items()):
        ages = np.arange(len(one.pmf))
        if name == "simulation":
            axes.plot(ages, one.pmf, "o", color="black", mfc="none", ms=4, label=name, zorder=1)
        else:
            axes.plot(ages, one.pmf, color=COLOURS[number], ls=DASHES[number], label=name)
    axes.set_xlabel("age of update (rounds)")
    axes.set_ylabel("probability")
    axes.legend()
    return figure


def _canvas(panels: int, title: str) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(0.6 + 4.8 * panels, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
    for one in axes:
        one.grid(alpha=0.3)
    return figure, axes


def _lines(runs: Sequence[SweepRun]) -> dict[str, list[SweepRun]]:
    """Return the runs of each combination, by its label."""
    lines: dict[str, list[SweepRun]] = {}
    for run in runs:
        label = ", ".join(
            value_text_of(value) if key.endswith("policy") else f"{key.rpartition('.')[2]} = {value_text_of(value)}"
            for key, value in run.values.items()
        )
        lines.setdefault(label, []).append(run)
    return lines


def _over_rounds(axes: Axes, runs: Sequence[SweepRun], value: Any, label: str) -> None:
    for number, (name, own) in enumerate(_lines(runs).items()):
        rows = [[(row.round + 1, value(row)) for row in run.folder.rows() if value(row) is not None] for run in own]
        rounds = [at for at, _ in rows[0]]
        values = np.array([[one for _, one in line] for line in rows], np.float64)
        mean, error = values.mean(axis=0), _standard_error(values)
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(rounds, mean, label=name, color=colour, ls=DASHES[number % len(DASHES)])
        axes.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    axes.set_xlabel("communication rounds")
    axes.set_ylabel(label)
    axes.legend(fontsize="small")


def _participation(axes: Axes, runs: Sequence[SweepRun]) -> None:
    """Draw the share of the entries that were sent at least so many times, of the first seed's runs."""
    for number, (name, own) in enumerate(_lines(runs).items()):
        checkpoint = own[0].folder.latest()
        assert checkpoint is not None
        times = np.sort(checkpoint.arrays["times_sent"])[::-1]
        share = np.arange(1, len(times) + 1) / len(times)
        axes.plot(100 * share, times, label=name, color=COLOURS[number], ls=DASHES[number])
    axes.set_yscale("log")
    axes.set_xlabel("entries, the most frequent first (%)")
    axes.set_ylabel("times sent")
    axes.legend(fontsize="small")


def _over_ratio(axes: Axes, points: Sequence[Any]) -> None:
    ratios = [point["values"]["selection.k_m_ratio"] for point in points]
    values = [100 * np.array(point["test_accuracy"]["each"], np.float64) for point in points]
    error = [float(_standard_error(one[:, None])[0]) for one in values]
    axes.errorbar(ratios, [one.mean() for one in values], error, marker="o", capsize=3, color=COLOURS[0])
    axes.set_xlabel("share selected by magnitude, $k_M/k$ (0: round robin, 1: Top-k)")
    axes.set_ylabel("test accuracy (%)")


def _standard_error(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if len(values) < 2:
        return np.zeros(values.shape[1])
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
