# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold samples of one client, or of the test set, and make batches of them as tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fl_app.core.torch_seed import seeded_torch

Indices = NDArray[np.int64]
Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets


class Samples(ABC):
    """Hold samples: inputs as the model takes them, and their targets."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Indices, rng: np.random.Generator) -> Batch:
        """Return the samples at these indices; ``rng`` seeds random transforms, if there are any."""

    @abstractmethod
    def part(self, indices: Indices) -> Samples:
        """Return the samples at these indices as samples of their own."""


class ArraySamples(Samples):
    """Hold samples as two arrays of the same length, which torch can read without a copy."""

    def __init__(self, inputs: NDArray[Any], targets: NDArray[Any]) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, indices: Indices, rng: np.random.Generator) -> Batch:  # noqa: ARG002
        return torch.from_numpy(self.inputs[indices]), torch.from_numpy(self.targets[indices])

    def part(self, indices: Indices) -> ArraySamples:
        return ArraySamples(self.inputs[indices], self.targets[indices])


class DatasetSamples(Samples):
    """Read samples from a torch Dataset when a batch needs them.

    Transforms of the data set that draw from torch's global generator are seeded for each batch, so that a client sees
    the same images in any process.
    """

    def __init__(self, dataset: torch.utils.data.Dataset[Any], indices: Indices) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def batch(self, indices: Indices, rng: np.random.Generator) -> Batch:
        with seeded_torch(rng):
            rows = [self.dataset[int(index)] for index in self.indices[indices]]
        inputs, targets = torch.utils.data.default_collate(rows)
        return _single(inputs), _single(targets)

    def part(self, indices: Indices) -> DatasetSamples:
        return DatasetSamples(self.dataset, self.indices[indices])


def _single(tensor: torch.Tensor) -> torch.Tensor:
    """Return float64, which numbers of Python become in a batch, as the models' float32."""
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def blocks_of(samples: Samples, size: int) -> Sequence[Samples]:
    """Divide samples into blocks of fixed size, so that any number of processes computes the same sums."""
    return [samples.part(np.arange(start, min(start + size, len(samples)))) for start in range(0, len(samples), size)]
