# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the confusion matrix of a model, and how well it does for each client."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fl_app.pictures import ALWAYS_WHITE, COLOURS
from fl_app.runs.scores import ModelScores

MOST_NUMBERS = 12  # classes up to which each cell has its number
MOST_NAMES = 40  # classes up to which each has its name on the axes
MOST_CLIENTS = 100  # clients up to which each has its place on the axis; more are sorted by their figure
DARK_CELL = 0.55  # share of a row from which on the number in the cell is white


def confusion_figure(scores: ModelScores) -> Figure:
    """Draw the confusion matrix; the shade of a cell is its share of the row."""
    assert scores.confusion is not None
    counts, names = scores.confusion, scores.class_names
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(9.0, max(4.6, 2.2 + 0.32 * len(counts)))
    figure = Figure(figsize=(side, side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    cells = np.empty((*counts.shape, 4))
    cells[..., :3] = matplotlib.colors.to_rgb(COLOURS[0])
    cells[..., 3] = share  # an empty cell shows the page, be it light or dark
    axes.imshow(cells, interpolation="none")
    if len(counts) <= MOST_NAMES:
        size = 10 if len(counts) <= MOST_NUMBERS else 8
        axes.set_xticks(range(len(names)), names, fontsize=size)
        axes.set_yticks(range(len(names)), names, fontsize=size)
        if max(map(len, names)) > 2:
            axes.tick_params("x", rotation=90)
    else:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    if len(counts) <= MOST_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            colour = ALWAYS_WHITE if share[row, column] > DARK_CELL else "#000000"
            axes.text(column, row, str(count), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlabel("answer")
    axes.set_ylabel("class")
    return figure


def clients_figure(scores: ModelScores) -> Figure:
    """Draw the task's main figure of merit for each client; for very many clients, sorted."""
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    main = scores.main_figure
    scale = 100.0 if main == "accuracy" else 1.0
    own = [scale * one.figures.get(main, one.loss) for one in scores.clients]
    _points(axes, own, "own training samples", 0)
    on_classes = [100 * one.on_its_classes for one in scores.clients if one.on_its_classes is not None]
    if len(on_classes) == len(own):
        _points(axes, on_classes, "test set, by the client's classes", 1)
    if scores.accuracy is not None and main == "accuracy":
        axes.axhline(100 * scores.accuracy, color=COLOURS[-1], linestyle=":", label="test set")
    known = any(main in one.figures for one in scores.clients)
    axes.set_ylabel("accuracy (%)" if scale > 1 else (main if known else "loss").replace("_", " "))
    axes.set_xlabel("client (index)" if len(own) <= MOST_CLIENTS else "clients, sorted for each line")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    low, high = min([*own, *on_classes]), max([*own, *on_classes])
    axes.set_ylim(min(0.0, 1.08 * low), 1.08 * max(0.0, high) or 1.0)
    figure.legend(*axes.get_legend_handles_labels(), ncols=3, loc="outside upper center")
    return figure


def _points(axes: Axes, values: list[float], label: str, number: int) -> None:
    colour, marker = COLOURS[number], "os"[number]
    if len(values) <= MOST_CLIENTS:
        axes.plot(range(len(values)), values, marker, color=colour, mfc="none" if number else colour, label=label)
    else:
        axes.plot(np.sort(values)[::-1], color=colour, linestyle=("-", "--")[number], label=label)
