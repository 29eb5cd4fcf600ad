# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the partition: one bar for each client; its height is the number of samples, its colours are the classes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

LEGEND_CLASSES_MAX = 30  # most classes in a legend; a colour bar is clearer for more


def plot_partition(
    labels: NDArray[Any],
    parts: Sequence[NDArray[np.int64]],
    path: str | PathLike[str],
    class_names: Sequence[str] | None = None,
) -> None:
    """Draw the partition into the image file `path`; its suffix determines the format."""
    labels = np.asarray(labels)
    classes = int(labels.max()) + 1 if class_names is None else len(class_names)
    names = [str(number) for number in range(classes)] if class_names is None else list(class_names)
    counts = np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
    colours = _colours(classes)

    figure = Figure(figsize=(min(16.0, 7.0 + 0.14 * len(parts)), 4.8), layout="constrained")
    FigureCanvasAgg(figure)  # draws without a window system
    axes = figure.add_subplot()
    clients = np.arange(len(parts))
    base = np.zeros(len(parts), np.int64)
    for number in range(classes):
        axes.bar(clients, counts[:, number], bottom=base, width=0.85, color=colours[number], label=names[number])
        base += counts[:, number]
    axes.set_xlabel("client (index)")
    axes.set_ylabel("training samples (images)")
    axes.set_title(f"{len(labels):,} samples of {classes} classes\n{base.min():,} to {base.max():,} on each client")
    axes.set_xlim(-0.6, len(parts) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    if classes <= LEGEND_CLASSES_MAX:
        handles, entries = axes.get_legend_handles_labels()
        columns = 1 + (classes - 1) // 15
        # The legend is in reverse order, as the first class is at the bottom of the bars.
        figure.legend(handles[::-1], entries[::-1], title="class", loc="outside right upper", ncols=columns)
    else:
        shades = matplotlib.colors.ListedColormap(colours)
        scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(-0.5, classes - 0.5), shades)
        figure.colorbar(scale, ax=axes, label="class (index)")
    figure.savefig(path, dpi=130)


def _colours(classes: int) -> NDArray[np.float64]:
    """Return distinct colours for up to 20 classes, and neighbours in a rainbow for more."""
    if classes <= 10:
        return np.asarray(matplotlib.colormaps["tab10"](range(classes)))
    if classes <= 20:
        return np.asarray(matplotlib.colormaps["tab20"](range(classes)))
    return np.asarray(matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, classes)))
