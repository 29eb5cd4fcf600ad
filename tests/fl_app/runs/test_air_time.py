# SPDX-License-Identifier: GPL-3.0-or-later
"""The figure of accuracy against seconds on the air."""

from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest

from fl_app.pictures import save_figure
from fl_app.runs.figures import air_time_figure, over_air_time
from tests.fl_app.runs.test_metrics import ROW


def rounds(seconds, accuracies, losses=None):
    losses = losses or [None] * len(seconds)
    return [
        replace(ROW, round=number, air_seconds=each, test_accuracy=accuracy, test_loss=loss)
        for number, (each, accuracy, loss) in enumerate(zip(seconds, accuracies, losses, strict=True))
    ]


def test_seconds_add_up_to_the_rounds_that_were_tested():
    one = rounds([1.0, 0.5, 0.5, 0.25], [0.1, None, 0.3, 0.5])
    other = rounds([1.0, 0.7, 0.7, 0.25], [0.2, None, 0.4, 0.6])
    seconds, values = over_air_time([one, other], has_accuracy=True)
    assert seconds == pytest.approx([1.0, (2.0 + 2.4) / 2, (2.25 + 2.65) / 2])
    assert values == pytest.approx(np.array([[10, 30, 50], [20, 40, 60]]))


def test_a_seed_that_was_tested_at_other_rounds_is_left_out():
    seconds, values = over_air_time([rounds([1.0, 1.0], [0.1, 0.2]), rounds([1.0], [0.3])], has_accuracy=True)
    assert seconds == pytest.approx([1.0, 2.0])
    assert values.shape == (1, 2)


def test_figure_is_drawn_in_all_formats_and_by_loss_where_there_is_no_accuracy(tmp_path):
    runs = {
        f"policy {number} at 5 $": [rounds([0.1, 0.01], [None] * 2, [2.0, 1.0 + number / 9])] for number in range(9)
    }
    save_figure(air_time_figure(runs), tmp_path / "air", ("png", "svg", "pdf"))
    assert matplotlib.image.imread(tmp_path / "air.png")[..., :3].std() > 0.02
    assert (tmp_path / "air.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "air.svg").read_text()


def test_an_air_that_counts_no_time_has_no_figure():
    assert air_time_figure({"own": [rounds([0.0, 0.0], [0.1, 0.2])]}) is None


@pytest.mark.parametrize("lines", [2, 15])
def test_the_legend_covers_neither_the_curves_nor_the_labels_of_the_axis(lines):
    runs = {f"scheme {number}, a policy": [rounds([0.1, 0.01], [0.1, 0.2])] for number in range(lines)}
    figure = air_time_figure(runs)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    assert not legend.get_window_extent().overlaps(axes.get_tightbbox())
