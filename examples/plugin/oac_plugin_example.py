# SPDX-License-Identifier: GPL-3.0-or-later
"""A model and a selection policy that gr-oac finds by name once this package is installed, or by import string."""

import numpy as np
from torch import nn


def tiny_mlp(input_shape, classes, hidden=16):
    """Build a network with one hidden layer. gr-oac fills in what it knows; ``hidden`` comes from [model.args]."""
    pixels = int(np.prod(input_shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class PatientK:
    """Select entries that are older than ``patience`` rounds first, and the largest ones after them."""

    def __init__(self, k, rng, patience=20):
        self.k, self.rng, self.patience = k, rng, patience

    def next(self, g, age):
        order = self.rng.permutation(g.size)  # equal entries have equal chances
        magnitude, is_old = np.abs(g)[order], (age > self.patience)[order]
        return order[np.lexsort((-magnitude, ~is_old))[: self.k]]
