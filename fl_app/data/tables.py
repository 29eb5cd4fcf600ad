# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw `table`, a table for regression: Friedman's first function of five features, with noise.

    y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise

The features are uniform in 0..1 and independent; further columns have nothing to do with y (J. H. Friedman,
"Multivariate adaptive regression splines", Annals of Statistics 19(1), 1991). The moments of y are known, and with them
the best R squared that any model can reach.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, sici

from fl_app.core.sizes import check_sizes
from fl_app.core.task import Regression
from fl_app.data.data import Data
from fl_app.data.raw_stream import RawStream

Float = NDArray[np.float64]

FUNCTION_FEATURES = 5  # columns that the function depends on
UNIFORM_STD = 12**-0.5  # standard deviation of a number that is uniform in 0..1


def load_table(
    rows: int = 4000, test_rows: int = 1000, features: int = 10, noise_std: float = 1.0, seed: int = 0
) -> Data:
    """Return the table: features of mean 0 and variance 1, and the target scaled in the same way.

    The scales are those of the distribution, not of the rows that were drawn, so that an error in the units of the
    table is one and the same for every number of rows.

    Parameters
    ----------
    rows, test_rows
        Number of rows for training and for the test.
    features
        Number of columns, 5 or more; the target depends on the first five.
    noise_std
        Standard deviation of the noise on y, before y is scaled; 1 as in Friedman's paper.
    seed
        Seed of the draws. Runs with different `[run] seed` have the same table.
    """
    check_sizes(1, rows=rows, test_rows=test_rows)
    check_sizes(FUNCTION_FEATURES, features=features)
    check_sizes(0, noise_std=noise_std, seed=seed)
    train, test = (
        _standardised(*draw_rows(count, features, noise_std, RawStream(seed, part)), noise_std)
        for part, count in enumerate((rows, test_rows))
    )
    return Data(train, test, task=Regression(), name="table")


def friedman(features: Float) -> Float:
    """Return y without noise for each row of features."""
    x1, x2, x3, x4, x5 = features.T[:FUNCTION_FEATURES]
    value: Float = 10 * np.sin(np.pi * x1 * x2) + 20 * (x3 - 0.5) ** 2 + 10 * x4 + 5 * x5
    return value


def draw_rows(rows: int, features: int, noise_std: float, stream: RawStream) -> tuple[Float, Float]:
    """Draw features and noisy targets, in the units of Friedman's paper; more rows begin with the same ones."""
    drawn = stream.uniform(rows, features + 1)
    x = drawn[:, :features]
    noise = ndtri(drawn[:, features] + 2.0**-54)  # the shift keeps 0 out, whose normal quantile is infinite
    return x, friedman(x) + noise_std * noise


def moments() -> tuple[float, float]:
    """Return the mean and the variance of y without noise, in closed form.

    With X1 and X2 uniform in 0..1, integration over X1 and then over X2 gives, with the integrals Si and Ci,
    E sin(pi X1 X2) = (gamma + ln pi - Ci(pi)) / pi and E sin^2(pi X1 X2) = 1/2 - Si(2 pi) / (4 pi).
    """
    _, cosine_integral = sici(math.pi)
    sine_integral, _ = sici(2 * math.pi)
    sine = (np.euler_gamma + math.log(math.pi) - float(cosine_integral)) / math.pi
    sine_squared = 0.5 - float(sine_integral) / (4 * math.pi)
    mean = 10 * sine + 20 / 12 + 10 / 2 + 5 / 2
    variance = 100 * (sine_squared - sine**2) + 400 * (1 / 80 - 1 / 144) + 100 / 12 + 25 / 12
    return mean, variance


def best_r2(noise_std: float = 1.0) -> float:
    """Return the share of the variance of y that the function explains: no model has more on new rows, on average."""
    _, variance = moments()
    return variance / (variance + noise_std**2)


def _standardised(x: Float, y: Float, noise_std: float) -> tuple[Float, Float]:
    mean, variance = moments()
    return (x - 0.5) / UNIFORM_STD, (y - mean) / math.sqrt(variance + noise_std**2)
