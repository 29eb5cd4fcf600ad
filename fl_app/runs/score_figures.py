# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the confusion matrix of a model, and how well it does for each client."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fl_app.pictures import ALWAYS_WHITE, COLOURS
from fl_app.runs.figures import from_zero
from fl_app.runs.scores import ModelScores

MOST_NUMBERS = 12  # classes up to which each cell has its number
MOST_NAMES = 40  # classes up to which each has its name on the axes
LETTER_INCHES = 0.085  # width of a letter of a class's name
MOST_CLIENTS = 100  # clients up to which each has its place on the axis; more are sorted by their figure
SHADE_POWER = 0.6  # exponent of a cell's share of its row: below 1, so that rare answers can be seen, too
DARK_CELL = 0.8  # opacity from which on the number in a cell is white


def confusion_figure(scores: ModelScores) -> Figure:
    """Draw the confusion matrix; a cell is the stronger, the larger its share of the row."""
    assert scores.confusion is not None
    counts, names = scores.confusion, scores.class_names
    shade = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)) ** SHADE_POWER
    has_names = len(counts) <= MOST_NAMES
    # Inches for the labels. A layout engine that finds them takes most of the time of a large matrix.
    room = 0.6 + (LETTER_INCHES * max(map(len, names)) if has_names else 0.3)
    side = min(7.5, max(3.6, 1.2 + 0.32 * len(counts)))
    whole = room + side + 0.15
    figure = Figure(figsize=(whole, whole))
    FigureCanvasAgg(figure)
    figure.subplots_adjust(room / whole, room / whole, 1 - 0.15 / whole, 1 - 0.15 / whole)
    axes = figure.subplots()
    cells = np.empty((*counts.shape, 4))
    cells[..., :3] = matplotlib.colors.to_rgb(COLOURS[0])
    cells[..., 3] = shade  # an empty cell shows the page, be it light or dark
    axes.imshow(cells, interpolation="none")
    if has_names:
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
            colour = ALWAYS_WHITE if shade[row, column] > DARK_CELL else "#000000"
            axes.text(column, row, str(count), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlabel("answer")
    axes.set_ylabel("class")
    return figure


def clients_figure(scores: ModelScores) -> Figure:
    """Draw the task's main figure of merit for each client; for very many clients, sorted."""
    figure = Figure(figsize=(7.0, 3.8))
    FigureCanvasAgg(figure)
    figure.subplots_adjust(0.14, 0.14, 0.98, 0.89)
    axes = figure.subplots()
    main = scores.main_figure
    scale = 100.0 if main == "accuracy" else 1.0
    own = _numbers([one.figures.get(main, one.loss) for one in scores.clients], scale)
    on_classes = _numbers([one.on_its_classes for one in scores.clients], 100.0)
    _points(axes, own, "own training samples", 0)
    if np.isfinite(on_classes).any():
        _points(axes, on_classes, "test set, by the client's classes", 1)
    if scores.accuracy is not None and main == "accuracy":
        axes.axhline(100 * scores.accuracy, color=COLOURS[-1], linestyle=":", label="test set")
    known = any(main in one.figures for one in scores.clients)
    axes.set_ylabel("accuracy (%)" if scale > 1 else (main if known else "loss").replace("_", " "))
    axes.set_xlabel("client (index)" if len(own) <= MOST_CLIENTS else "clients, sorted for each line")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if np.isfinite([*own, *on_classes]).any():
        from_zero(axes)
    figure.legend(*axes.get_legend_handles_labels(), ncols=3, loc="upper center")
    return figure


def _numbers(values: Sequence[float | None], scale: float) -> NDArray[np.float64]:
    """Return the values as numbers, NaN for None."""
    return np.array([np.nan if value is None else scale * value for value in values])


def _points(axes: Axes, values: NDArray[np.float64], label: str, number: int) -> None:
    colour, marker = COLOURS[number], "os"[number]
    if len(values) <= MOST_CLIENTS:
        axes.plot(range(len(values)), values, marker, color=colour, mfc="none" if number else colour, label=label)
    else:
        axes.plot(np.sort(values)[::-1], color=colour, linestyle=("-", "--")[number], label=label)
