# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the figure of a sweep: lines with error bars over a number, or grouped bars over names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fl_app.pictures import COLOURS, DASHES
from fl_app.runs.sweeps.outcome import line_texts
from fl_app.runs.sweeps.plan import value_text_of

PANELS = (
    ("test_accuracy", 100.0, "test accuracy (%)"),
    ("mean_aou", 1.0, "mean age of update\n(rounds)"),
    ("vote_error_rate", 100.0, "votes decided against\nthe majority (%)"),
)
LOSS_PANEL = ("test_loss", 1.0, "test loss")  # in place of the accuracy, for a task that has none
# Labels of settings on an axis; other settings are named by their key, with the unit that its last part says.
LABELS = {
    "run.rounds": "communication rounds, $T$",
    "data.alpha": r"Dirichlet $\alpha$ (smaller: more uneven)",
    "data.limit": "training images",
    "clients.n": "clients, $N$",
    "clients.H": "local steps, $H$",
    "clients.batch_size": "batch size, $B$",
    "clients.lr": r"local learning rate, $\eta_l$",
    "server.lr": r"global learning rate, $\eta$",
    "selection.rho": r"share of the entries sent, $\rho = k/d$",
    "selection.k": "entries sent, $k$",
    "selection.k_m_ratio": "share selected by magnitude, $k_M/k$",
    "air.snr_db": "SNR (dB)",
    "air.name": "air",
    "air.mode": "scheme",
}
UNITS = {
    "db": "dB",
    "hz": "Hz",
    "ppm": "ppm",
    "samples": "samples",
    "seconds": "s",
    "bits": "bits",
    "symbols": "symbols",
}
MARKERS = "osD^vP*X"
WIDE_RATIO = 30  # largest over smallest value from which on the axis is logarithmic
DODGE = 0.008  # share of the x axis by which a line is moved against the one before
ALL_DODGE = 0.04  # largest share of the x axis between the first line and the last
MOST_TICKS = 12  # values up to which each has its tick


def sweep_figure(outcome: Mapping[str, Any]) -> Figure:
    """Draw the figure of a sweep."""
    points = [point for point in outcome["points"] if point["mean_aou"]["mean"] is not None]  # with a finished run
    known = [panel for panel in PANELS if any(point[panel[0]]["mean"] is not None for point in points)]
    panels = known if known[0] is PANELS[0] else [LOSS_PANEL, *known]
    figure = Figure(figsize=(7.0, 1.4 + 2.3 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: list[Axes] = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0])
    x_key = axis_key(outcome["vary"])
    others = [key for key in outcome["vary"] if key != x_key]
    groups = _groups(points, others)
    for panel, (name, scale, label) in zip(axes, panels, strict=True):
        if x_key is not None and is_numeric(outcome["vary"][x_key]):
            _draw_lines(panel, groups, x_key, name, scale)
        else:
            _draw_bars(panel, groups, x_key, outcome["vary"], name, scale)
        panel.set_ylabel(label)
        panel.grid(alpha=0.3)
    axes[-1].set_xlabel(label_of(x_key) if x_key is not None else "")
    if others:
        title = label_of(others[0]) if len(others) == 1 else None
        columns = min(len(groups), 6 if len(others) == 1 else 2)
        figure.legend(*axes[0].get_legend_handles_labels(), title=title, ncols=columns, loc="outside upper center")
    return figure


def is_numeric(values: Sequence[Any]) -> bool:
    """Say whether all values are numbers, and there are at least two."""
    return len(values) > 1 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def axis_key(vary: Mapping[str, Sequence[Any]]) -> str | None:
    """Return the key of the x axis: the first numeric one, or else the first; None if nothing is varied."""
    return next((key for key, values in vary.items() if is_numeric(values)), next(iter(vary), None))


def label_of(key: str) -> str:
    """Return the label of a setting, with its unit."""
    name = key.rpartition(".")[2]
    stem, _, unit = name.rpartition("_")
    plain = f"{stem.replace('_', ' ')} ({UNITS[unit]})" if unit in UNITS and stem else name.replace("_", " ")
    return LABELS.get(key, plain)


def _groups(points: Sequence[Mapping[str, Any]], others: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the points of each line, by the line's label."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault(line_texts(point["values"], others).replace("$", r"\$"), []).append(point)
    return groups


def _statistics(points: Sequence[Mapping[str, Any]], name: str, scale: float) -> tuple[list[float], list[float]]:
    means = [np.nan if point[name]["mean"] is None else scale * point[name]["mean"] for point in points]
    return means, [scale * (point[name]["std"] or 0.0) for point in points]


def _draw_lines(
    axes: Axes, groups: Mapping[str, Sequence[Mapping[str, Any]]], x_key: str, name: str, scale: float
) -> None:
    values = sorted({point["values"][x_key] for own in groups.values() for point in own})
    is_log = values[0] > 0 and values[-1] / values[0] >= WIDE_RATIO
    for number, (label, own) in enumerate(groups.items()):
        ordered = sorted(own, key=lambda point: point["values"][x_key])
        means, deviations = _statistics(ordered, name, scale)
        aside = min(DODGE, ALL_DODGE / len(groups)) * (
            number - (len(groups) - 1) / 2
        )  # so that the error bars of two lines do not hide each other
        x = np.array([point["values"][x_key] for point in ordered], float)
        axes.errorbar(
            x * (values[-1] / values[0]) ** aside if is_log else x + aside * (values[-1] - values[0]),
            means,
            yerr=deviations if any(deviations) else None,
            color=COLOURS[number % len(COLOURS)],
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            linewidth=1.5,
            elinewidth=1.0,
            capsize=3,
            label=label or None,
        )
    if is_log:
        axes.set_xscale("log")
    if len(values) <= MOST_TICKS:
        axes.set_xticks(values, [value_text_of(value) for value in values])
        axes.set_xticks([], minor=True)
    low, high = axes.get_ylim()
    axes.set_ylim(bottom=max(-0.03 * high, low))  # no figure is below zero


def _draw_bars(
    axes: Axes,
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
    x_key: str | None,
    vary: Mapping[str, Sequence[Any]],
    name: str,
    scale: float,
) -> None:
    places = list(vary[x_key]) if x_key is not None else [None]
    width = 0.8 / len(groups)
    for number, (label, own) in enumerate(groups.items()):
        means, deviations = _statistics(own, name, scale)
        at = [places.index(point["values"][x_key]) if x_key is not None else 0 for point in own]
        axes.bar(
            np.array(at) + (number - (len(groups) - 1) / 2) * width,
            means,
            0.92 * width,
            yerr=deviations if any(deviations) else None,
            color=COLOURS[number % len(COLOURS)],
            capsize=3,
            label=label or None,
        )
    texts = [value_text_of(value).replace("$", r"\$") for value in places] if x_key is not None else ["all seeds"]
    axes.set_xticks(range(len(places)), texts)
    axes.set_ylim(bottom=0)
