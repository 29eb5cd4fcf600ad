# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the samples of each local step: a new random batch every time, or whole passes over the client's data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oac_blocks.dsp.checks import generator, integer

Batch = NDArray[np.int64]


def draw_batch(samples: int, batch_size: int, rng: np.random.Generator) -> Batch:
    """Return ``batch_size`` different samples of 0..samples - 1; a batch of all has them in order, without a draw."""
    if batch_size >= samples:
        return np.arange(samples)
    return rng.choice(samples, batch_size, replace=False)


def step_batches(samples: int, batch_size: int, steps: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Yield one batch for each of the paper's H steps, each drawn anew from all samples."""
    _check(samples, batch_size, rng)
    for _ in range(integer("steps", steps, 1)):
        yield draw_batch(samples, batch_size, rng)


def epoch_batches(samples: int, batch_size: int, epochs: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Yield the batches of whole passes over the data, each pass in a new random order; a batch of all is in order.

    Every sample comes once in each pass; the last batch of a pass has what is left. So a client takes
    ``epochs * ceil(samples / batch_size)`` steps, and a client with more data sends a larger sum. FedAvg weights the
    clients by their sizes on top of this (`fl_app.core.participation.size_weights`).
    """
    _check(samples, batch_size, rng)
    for _ in range(integer("epochs", epochs, 1)):
        order = np.arange(samples) if batch_size >= samples else rng.permutation(samples)
        for start in range(0, samples, batch_size):
            yield order[start : start + batch_size]


def _check(samples: int, batch_size: int, rng: np.random.Generator) -> None:
    integer("samples", samples, 1)
    integer("batch_size", batch_size, 1)
    generator("rng", rng)
