# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the terms of Theorem 1 over the number of local steps and over the number of rounds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fl_app.pictures import COLOURS, DASHES, save_figure
from fl_app.theory.convergence import ProblemConstants, bound_terms

_AXES = {"local_steps": "local steps H", "rounds": "rounds T"}
_POINTS = 60  # values of H and of T, evenly spread on a logarithmic axis


def draw_bound(given: ProblemConstants, path: Path) -> None:
    """Draw every term and their sum; a vertical line marks the config's own H and T.

    Parameters
    ----------
    given : ProblemConstants
        The constants of the config.
    path : Path
        File to write; its suffix (.png, .svg, .pdf) gives the format.
    """
    figure = Figure(figsize=(10.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, label) in zip(figure.subplots(1, 2, sharey=True), _AXES.items(), strict=True):
        own = getattr(given, name)
        most = max(100, 10 * own)
        values = np.unique(np.geomspace(1, most, _POINTS).round().astype(int))
        terms = [bound_terms(dataclasses.replace(given, **{name: int(value)})) for value in values]
        for number, term in enumerate(terms[0]):
            line = np.array([one[term] for one in terms])
            axes.plot(values, np.where(line > 0, line, np.nan), color=COLOURS[number], ls=DASHES[number], label=term)
        axes.plot(values, [sum(one.values()) for one in terms], color="black", lw=2, label="sum")
        axes.axvline(own, color="grey", lw=1)
        axes.text(own, 1.0, f" {own}", transform=axes.get_xaxis_transform(), va="top", color="grey")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("term of Theorem 1 (squared gradient norm)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), ncols=4, loc="outside lower center", fontsize="small")
    save_figure(figure, path.with_suffix(""), (path.suffix.removeprefix("."),))
