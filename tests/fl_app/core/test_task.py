# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tasks share: figures that add up over test blocks, and a main figure."""

import numpy as np
import pytest
import torch

from fl_app.core.catalog import TASKS
from fl_app.core.client import Score, evaluation_of

SAMPLES, CONTEXT, CLASSES = 37, 6, 5


def answers(name):
    """Outputs of a model and targets, as the task has them."""
    draw = torch.Generator().manual_seed(4)
    if name == "regression":
        return torch.randn(SAMPLES, 1, generator=draw), torch.randn(SAMPLES, generator=draw)
    shape = (SAMPLES, CONTEXT) if name == "next-character" else (SAMPLES,)
    return torch.randn(*shape, CLASSES, generator=draw), torch.randint(CLASSES, shape, generator=draw)


def evaluation(name, block):
    task, (outputs, targets) = TASKS.load(name)(), answers(name)
    scores = []
    for number, start in enumerate(range(0, SAMPLES, block)):
        got, wanted = outputs[start : start + block], targets[start : start + block]
        scores.append(Score(number, len(wanted), float(task.loss_sum(got, wanted)), task.totals(got, wanted)))
    return task, evaluation_of(reversed(scores), task)


@pytest.mark.parametrize("name", TASKS.names())
@pytest.mark.parametrize("block", [1, 10, SAMPLES - 1])
def test_figures_over_blocks_are_those_over_the_whole(name, block):
    task, whole = evaluation(name, SAMPLES)
    assert whole.loss == pytest.approx(float(task.loss(*answers(name))), rel=1e-6)
    _, parts = evaluation(name, block)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)
    assert parts.figures == pytest.approx(whole.figures, rel=1e-5)


@pytest.mark.parametrize("name", TASKS.names())
def test_the_main_figure_comes_first(name):
    task, whole = evaluation(name, SAMPLES)
    assert next(iter(whole.figures)) == task.main_figure


def test_r_squared_is_the_squared_correlation_of_the_best_line():
    """For outputs that a least-squares line gives, R squared is the squared coefficient of correlation."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=200)
    y = 3 * x + rng.normal(size=200)
    line = torch.from_numpy(np.polyval(np.polyfit(x, y, 1), x))
    task, targets = TASKS.load("regression")(), torch.from_numpy(y)
    figures = task.figures(task.totals(line, targets), 200, float(task.loss(line, targets)))
    assert figures["r2"] == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((line.numpy() - y) ** 2)))
