# SPDX-License-Identifier: GPL-3.0-or-later
"""The data set `table`: Friedman's function, its moments, and the noise floor that no model goes below."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad

from fl_app.core.task import Regression
from fl_app.data import load_dataset
from fl_app.data.raw_stream import RawStream
from fl_app.data.tables import best_r2, draw_rows, friedman, moments
from oac_blocks.plugins import PluginError


def test_the_moments_are_those_of_the_integral():
    """Only the sine needs an integral in two dimensions; a square and a line have textbook moments."""

    def moment(power):
        return dblquad(lambda y, x: (10 * math.sin(math.pi * x * y)) ** power, 0, 1, 0, 1)[0]

    mean, variance = moments()
    assert mean == pytest.approx(moment(1) + 20 / 12 + 5 + 2.5)
    assert variance == pytest.approx(moment(2) - moment(1) ** 2 + 400 / 180 + 100 / 12 + 25 / 12)


def test_the_function_at_a_point_where_it_is_known():
    """At x1 x2 = 1/2 the sine is 1; x3 = 1 gives 5, x4 = 0.3 gives 3, x5 = 0.2 gives 1; the sixth column is nothing."""
    assert friedman(np.array([[0.5, 1.0, 1.0, 0.3, 0.2, 0.77]])) == pytest.approx(10 + 5 + 3 + 1)


@pytest.mark.parametrize("noise_std", [0.5, 1.0, 4.0])
def test_the_function_itself_explains_what_is_not_noise(noise_std):
    rows = 40_000
    x, y = draw_rows(rows, 7, noise_std, RawStream(5))
    task, known, targets = Regression(), torch.from_numpy(friedman(x)), torch.from_numpy(y)
    figures = task.figures(task.totals(known, targets), rows, 0.0)
    # R squared is one minus a quotient of two variances, each with a relative standard error of sqrt(2 / rows) at most.
    tolerance = 5 * (1 - best_r2(noise_std)) * 2 * math.sqrt(2 / rows)
    assert figures["r2"] == pytest.approx(best_r2(noise_std), abs=tolerance)
    assert figures["rmse"] == pytest.approx(noise_std, rel=5 * math.sqrt(1 / (2 * rows)))
    assert best_r2(0.0) == 1.0


def test_columns_and_target_are_standardised():
    data = load_dataset("table", args={"rows": 20_000})
    samples = data.train.all()
    error = 5 / math.sqrt(20_000)  # five standard errors of a mean; of a variance, this is more than enough
    for column in (*samples.inputs.T, samples.targets):
        assert column.mean() == pytest.approx(0, abs=error)
        assert column.var() == pytest.approx(1, abs=1.5 * error)
    assert data.facts() == {"input_shape": (10,), "features": 10, "outputs": 1}
    assert (len(data.train), len(data.test)) == (20_000, 1000)


def test_the_seed_decides_and_more_rows_begin_with_the_same():
    few, many, other = (load_dataset("table", args=args).train for args in ({"rows": 5}, {"rows": 9}, {"seed": 1}))
    np.testing.assert_array_equal(few.targets, many.targets[:5])
    np.testing.assert_array_equal(few.all().inputs, many.all().inputs[:5])
    assert (other.all().inputs[:5] != few.all().inputs).all()


def test_training_and_test_rows_differ():
    data = load_dataset("table", args={"rows": 50, "test_rows": 50})
    assert not set(data.train.targets.tolist()) & set(data.test.targets.tolist())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"rows": 0}, "rows must be 1 or more, not 0"),
        ({"test_rows": 0}, "test_rows must be 1 or more, not 0"),
        ({"features": 4}, "features must be 5 or more, not 4"),
        ({"noise_std": -1.0}, "noise_std must be 0 or more, not -1.0"),
    ],
)
def test_bad_arguments_are_named(args, message):
    with pytest.raises(PluginError, match=message):
        load_dataset("table", args=args)
