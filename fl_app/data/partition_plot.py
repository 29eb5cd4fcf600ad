# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the partition: one bar for each client; its height is the number of samples, its colours are the classes."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fl_app.data.partition_table import PartitionTable

BAR_WIDTH = 0.85  # share of the distance between two clients
EDGE_INCHES = 0.12  # inches around the legend
LEGEND_CLASSES_MAX = 30  # most classes in a legend; a colour bar is clearer for more


def partition_figure(partition: PartitionTable) -> Figure:
    """Draw a partition."""
    counts, names, strata_name = partition.counts, partition.names, partition.strata_name
    classes = len(names)
    colours = _colours(classes)

    width, height = min(16.0, 7.0 + 0.14 * len(counts)), 4.8
    figure = Figure(figsize=(width, height))
    canvas = FigureCanvasAgg(figure)  # draws without a window system
    # Margins in inches, for a title of two lines. A layout engine that finds them takes a third of the time.
    figure.subplots_adjust(0.95 / width, 0.55 / height, 1 - EDGE_INCHES / width, 1 - 0.6 / height)
    axes = figure.add_subplot()
    samples = counts.sum(axis=1)
    axes.add_collection(_bars(counts, colours))
    axes.set_ylim(0, 1.05 * max(samples.max(), 1))
    axes.set_xlabel("client (index)")
    axes.set_ylabel("training samples")
    kinds = f" of {classes} classes" if strata_name == "class" else ""
    axes.set_title(f"{samples.sum():,} samples{kinds}\n{samples.min():,} to {samples.max():,} on each client")
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    if classes <= LEGEND_CLASSES_MAX:
        handles = [Patch(color=colour, label=name) for colour, name in zip(colours, names, strict=True)]
        columns = 1 + (classes - 1) // 15
        # The legend is in reverse order, as the first class is at the bottom of the bars.
        place = (1 - EDGE_INCHES / width, 1 - EDGE_INCHES / height)
        legend = figure.legend(
            handles=handles[::-1],
            title=strata_name,
            loc="upper right",
            bbox_to_anchor=place,
            borderaxespad=0,
            ncols=columns,
        )
        legend_inches = legend.get_window_extent(canvas.get_renderer()).width / figure.dpi
        figure.subplots_adjust(right=1 - (legend_inches + 2 * EDGE_INCHES) / width)
    else:
        shades = matplotlib.colors.ListedColormap(colours)
        scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(-0.5, classes - 0.5), shades)
        figure.colorbar(scale, ax=axes, label=f"{strata_name} (index)")
    return figure


def _bars(counts: NDArray[np.int64], colours: NDArray[np.float64]) -> PolyCollection:
    """Return a bar of stacked classes for each client: one artist, since thousands take seconds to draw."""
    clients, classes = counts.shape
    top = np.cumsum(counts, axis=1)
    left = np.broadcast_to(np.arange(clients)[:, None] - BAR_WIDTH / 2, counts.shape)
    x, y = np.stack((left, left + BAR_WIDTH)), np.stack((top - counts, top))
    corners = [np.stack((x[i], y[j]), axis=-1) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
    boxes = np.stack(corners, axis=-2).reshape(clients * classes, 4, 2)
    return PolyCollection(boxes, facecolors=np.tile(colours, (clients, 1)), edgecolors="none", snap=True)


def _colours(classes: int) -> NDArray[np.float64]:
    """Return distinct colours for up to 20 classes, and neighbours in a rainbow for more."""
    if classes <= 10:
        return np.asarray(matplotlib.colormaps["tab10"](range(classes)))
    if classes <= 20:
        return np.asarray(matplotlib.colormaps["tab20"](range(classes)))
    return np.asarray(matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, classes)))
