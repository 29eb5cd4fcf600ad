# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the figures of a run and of a comparison, without a window system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fl_app.pictures import COLOURS, DASHES
from fl_app.runs.metrics import RoundFigures

Points = tuple[list[int], list[float]]
Style = tuple[str, Any]  # a colour, and dashes as matplotlib takes them


def curves_figure(rows: Sequence[RoundFigures]) -> Figure:
    """Draw the task's figures of merit, loss and (one-bit) vote errors over the rounds."""
    errors = _points(rows, lambda row: _percent(row.vote_error_rate))
    tested = _tested(rows)
    figure, axes = _canvas(len(tested) + (2 if errors[0] else 1))
    for panel, (label, points) in zip(axes, tested.items(), strict=False):
        _line(panel, points, "test set", 0, marker=True)
        panel.set_ylabel(label)
    loss = axes[len(tested)]
    _line(loss, _points(rows, lambda row: row.loss), "clients, while training", 1)
    _line(loss, _points(rows, lambda row: row.test_loss), "test set", 0, marker=True)
    loss.set_ylabel("loss")
    loss.legend()
    if errors[0]:
        _line(axes[-1], errors, "", 3)
        axes[-1].set_ylabel("votes decided against\nthe majority (%)")
    return _over_rounds(figure, axes)


def aou_figure(rows: Sequence[RoundFigures]) -> Figure:
    """Draw the mean and the largest age of the server's gradient entries over the rounds."""
    figure, axes = _canvas(1)
    _line(axes[0], _points(rows, lambda row: row.max_aou), "oldest entry", 1)
    _line(axes[0], _points(rows, lambda row: row.mean_aou), "mean over all entries", 0)
    axes[0].set_ylabel("age of update (rounds)")
    axes[0].legend()
    return _over_rounds(figure, axes)


def participation_figure(times_sent: NDArray[np.int32]) -> Figure:
    """Draw how often each entry went over the air, from the most to the least frequent."""
    figure, axes = _canvas(1)
    d, ordered = times_sent.size, np.sort(times_sent)[::-1]
    shown = np.unique(np.linspace(0, d - 1, 2000).astype(np.int64))
    share = 100 * (shown + 1) / d
    axes[0].plot(share, ordered[shown], color=COLOURS[0], drawstyle="steps-pre", label="entries, sorted")
    mean = float(times_sent.mean())
    axes[0].axhline(mean, color=COLOURS[1], linestyle="--", label=f"mean: {mean:.1f} rounds")
    axes[0].set_ylabel("sent in (rounds)")
    axes[0].set_xlabel(f"share of the d = {d:,} entries (%)")
    axes[0].set_xlim(0, 100)
    axes[0].legend()
    from_zero(axes[0])
    return figure


def comparison_figure(runs: Mapping[str, Sequence[Sequence[RoundFigures]]]) -> Figure:
    """Draw accuracy, or loss, and mean age of several policies: the mean over the seeds, and a band over all."""
    figure, axes = _canvas(2)
    has_accuracy = any(row.test_accuracy is not None for seeds in runs.values() for rows in seeds for row in rows)
    panels: list[tuple[Axes, Callable[[RoundFigures], float | None], str]] = [
        (axes[0], lambda row: _percent(row.test_accuracy), "test accuracy (%)")
        if has_accuracy
        else (axes[0], lambda row: row.test_loss, "test loss"),
        (axes[1], lambda row: row.mean_aou, "mean age of update (rounds)"),
    ]
    for panel, value, label in panels:
        for number, (policy, seeds) in enumerate(runs.items()):
            curves = [_points(rows, value) for rows in seeds]
            rounds = curves[0][0]
            values = np.array([curve[1] for curve in curves if curve[0] == rounds])
            _band(panel, rounds, values, policy, (COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]))
        panel.set_ylabel(label)
    axes[0].legend(ncols=2)
    return _over_rounds(figure, axes)


def air_time_figure(
    runs: Mapping[str, Sequence[Sequence[RoundFigures]]], styles: Mapping[str, Style] | None = None
) -> Figure | None:
    """Draw accuracy, or loss, against the seconds on the air so far, on a logarithmic axis: what each second buys.

    Parameters
    ----------
    runs
        For each line its label, and the rounds of each seed. The line is the mean over the seeds, the band covers all.
    styles
        Colour and dashes of each line by its label.

    Returns
    -------
    Figure or None
        None if no run has both a test and time on the air.
    """
    has_accuracy = any(row.test_accuracy is not None for seeds in runs.values() for rows in seeds for row in rows)
    curves = {label: over_air_time(seeds, has_accuracy) for label, seeds in runs.items()}
    if not any(seconds.size for seconds, _ in curves.values()):
        return None
    figure, axes = _canvas(1)
    figure.set_layout_engine("constrained")  # it makes room for the legend, whose size depends on the labels
    figure.set_size_inches(7.0, 4.2 + 0.11 * len(curves))
    for number, (label, (seconds, values)) in enumerate(curves.items()):
        own = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        _band(axes[0], seconds, values, label.replace("$", r"\$"), own if styles is None else styles[label])
    axes[0].set_xscale("log")
    axes[0].set_xlabel("seconds on the air so far")
    axes[0].set_ylabel("test accuracy (%)" if has_accuracy else "test loss")
    from_zero(axes[0])
    axes[0].grid(alpha=0.15, which="minor")
    if len(curves) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), ncols=3, loc="outside lower center", fontsize="small")
    return figure


def over_air_time(
    seeds: Sequence[Sequence[RoundFigures]], has_accuracy: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the seconds on the air (points,), the mean over the seeds, and each seed's values (seeds, points)."""
    value = (lambda row: _percent(row.test_accuracy)) if has_accuracy else (lambda row: row.test_loss)
    curves = [_points(rows, value) for rows in seeds]
    rounds = curves[0][0]
    alike = [number for number, curve in enumerate(curves) if curve[0] == rounds]
    totals = np.array([np.cumsum([row.air_seconds for row in seeds[number]]) for number in alike])
    seconds = totals[:, np.array(rounds, np.int64) - 1].mean(axis=0)
    on_air = seconds > 0  # an air of one's own may count no time, and a logarithm has no place for it
    return seconds[on_air], np.array([curves[number][1] for number in alike])[:, on_air]


def _band(
    panel: Axes, x: Sequence[float] | NDArray[np.float64], values: NDArray[np.float64], label: str, style: Style
) -> None:
    """Draw the mean of the curves (seeds, points), and a band from the lowest to the highest."""
    colour, dash = style
    panel.plot(x, values.mean(axis=0), color=colour, linestyle=dash, label=label)
    panel.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, linewidth=0)


def _tested(rows: Sequence[RoundFigures]) -> dict[str, Points]:
    """Return the curve of each figure of merit by its label, the accuracy first if the task has one."""
    curves = {"accuracy (%)": _points(rows, lambda row: _percent(row.test_accuracy))}
    for name in dict.fromkeys(name for row in rows for name in row.test_figures or {}):
        curves[name.replace("_", " ")] = _points(rows, partial(_further, name))
    return {label: points for label, points in curves.items() if points[0]}


def _further(name: str, row: RoundFigures) -> float | None:
    return (row.test_figures or {}).get(name)


def _canvas(panels: int) -> tuple[Figure, list[Axes]]:
    width, height = 7.0, 1.2 + 2.4 * panels if panels > 1 else 4.0
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    # Margins in inches, for labels of two lines. A layout engine that finds them takes a third of a report's time.
    figure.subplots_adjust(1.0 / width, 0.55 / height, 1 - 0.15 / width, 1 - 0.15 / height, hspace=0.08)
    grid = figure.subplots(panels, 1, sharex=True, squeeze=False)
    return figure, list(grid[:, 0])


def _line(axes: Axes, points: Points, label: str, number: int, marker: bool = False) -> None:
    style = "o-" if marker else "-"
    axes.plot(*points, style, color=COLOURS[number], label=label or None, markersize=4, linewidth=1.5)


def _points(rows: Sequence[RoundFigures], value: Callable[[RoundFigures], float | None]) -> Points:
    """Return (rounds done, value) for each round that has a value."""
    pairs = [(row.round + 1, number) for row in rows if (number := value(row)) is not None]
    return [done for done, _ in pairs], [number for _, number in pairs]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _over_rounds(figure: Figure, axes: Sequence[Axes]) -> Figure:
    for panel in axes:
        from_zero(panel)
    axes[-1].set_xlabel("communication rounds")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].margins(x=0.02)
    axes[-1].set_xlim(left=0)
    return figure


def from_zero(axes: Axes) -> None:
    """Start the axis at zero, or at the smallest value below it, and leave some room above a flat curve."""
    axes.set_ylim(min(0, 1.08 * axes.dataLim.ymin), 1.08 * max(0, axes.dataLim.ymax) or 1)
    axes.grid(alpha=0.3)
