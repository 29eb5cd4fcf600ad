# SPDX-License-Identifier: GPL-3.0-or-later
"""A data set of one module, to show what adding one takes: stripes across, or down, in noise."""

import numpy as np

from fl_app.data import Dataset


def load_stripes(_root, _download):
    """Return 200 training and 80 test images of two classes."""
    rng = np.random.default_rng(1)

    def draw(count):
        labels = np.arange(count) % 2
        across = (np.arange(16) // 2 % 2)[:, None] * np.ones((16, 16))
        images = np.where(labels[:, None, None] == 0, across, across.T) * 200 + rng.integers(0, 50, (count, 16, 16))
        return images[:, None].astype(np.uint8), labels.astype(np.int64)

    return Dataset("stripes", *draw(200), *draw(80), class_names=("across", "down"))
