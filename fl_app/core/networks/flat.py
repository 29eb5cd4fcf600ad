# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the network for rows of a table and other inputs that are taken as one row of numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from torch import nn

from fl_app.core.sizes import check_sizes


def mlp(
    input_shape: Sequence[int],
    outputs: int | None = None,
    classes: int | None = None,
    hidden: int = 64,
    layers: int = 2,
) -> nn.Module:
    """Build a multilayer perceptron: `layers` hidden layers with ReLU, then one linear layer.

    Parameters
    ----------
    input_shape
        Shape of one input; its numbers are taken as one row.
    outputs
        Number of values to predict; the data of a regression tells it.
    classes
        Number of classes; the data of a classification tells it.
    hidden
        Number of units of a hidden layer.
    layers
        Number of hidden layers; 0 makes the model linear.
    """
    last = outputs if classes is None else classes
    if last is None:
        raise ValueError("mlp needs the number of outputs or of classes")
    check_sizes(1, outputs=last, hidden=hidden)
    check_sizes(0, layers=layers)
    widths = [math.prod(input_shape), *([hidden] * layers)]
    stages: list[nn.Module] = [nn.Flatten()]
    for inputs, units in itertools.pairwise(widths):
        stages += [nn.Linear(inputs, units), nn.ReLU()]
    return nn.Sequential(*stages, nn.Linear(widths[-1], last))
