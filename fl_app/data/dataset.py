# SPDX-License-Identifier: GPL-3.0-or-later
"""Define a data set for the rest of the app: images and labels for training and test, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oac_blocks.errors import OacError

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

STATISTICS_BLOCK = 1000  # images that are counted together, which limits the memory that the count needs


class DataError(OacError, ValueError):
    """The data is missing or damaged; the message names the file and says what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Hold images, uint8 (n, channels, height, width), and labels, int64 in 0..classes-1.

    `mean` and `std` are computed from the training images: per channel, of pixels scaled to 0..1.
    """

    name: str
    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    class_names: tuple[str, ...]
    mean: tuple[float, ...] = field(init=False)
    std: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        for part, images, labels in (
            ("training", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ):
            if images.dtype != np.uint8 or images.ndim != 4 or labels.dtype != np.int64 or labels.ndim != 1:
                raise DataError(
                    f"{self.name}: {part} images must be uint8 (n, c, h, w) and labels int64 (n,), not "
                    f"{images.dtype} {images.shape} and {labels.dtype} {labels.shape}"
                )
            if len(images) != len(labels) or len(images) == 0:
                raise DataError(f"{self.name}: {len(images)} {part} images do not fit {len(labels)} labels")
            if labels.min() < 0 or labels.max() >= self.classes:
                raise DataError(
                    f"{self.name}: {part} labels must be 0..{self.classes - 1}, but they "
                    f"run from {labels.min()} to {labels.max()}"
                )
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise DataError(
                f"{self.name}: training images have shape {self.train_images.shape[1:]}, but test images "
                f"have {self.test_images.shape[1:]}"
            )
        mean, std = _pixel_statistics(self.train_images)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    @property
    def classes(self) -> int:
        """Return the number of classes."""
        return len(self.class_names)

    @property
    def channels(self) -> int:
        return int(self.train_images.shape[1])

    @property
    def image_size(self) -> int:
        """Return the height and width in pixels (images of all data sets here are square)."""
        return int(self.train_images.shape[2])

    def normalise(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return uint8 images as float32, with mean 0 and standard deviation 1 per channel over the training set."""
        scale = np.array([1 / (255 * std) for std in self.std], np.float32)[:, None, None]
        offset = np.array([mean / std for mean, std in zip(self.mean, self.std, strict=True)], np.float32)
        scaled: NDArray[np.float32] = images.astype(np.float32) * scale - offset[:, None, None]
        return scaled


def _pixel_statistics(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel in 0..1 by counting, which is exact for any number of images."""
    values = np.arange(256, dtype=np.int64)
    means, stds = [], []
    for channel in range(images.shape[1]):
        counts = np.zeros(256, np.int64)
        for start in range(0, len(images), STATISTICS_BLOCK):
            block = images[start : start + STATISTICS_BLOCK, channel]
            counts += np.bincount(block.reshape(-1), minlength=256)
        total = int(counts.sum())
        mean = int((counts * values).sum()) / total
        variance = int((counts * values**2).sum()) / total - mean**2
        means.append(mean / 255)
        # A channel without contrast is shifted only; scaling would make its noise arbitrarily large.
        stds.append(max(variance, 0.0) ** 0.5 / 255 if variance > 1e-9 else 1.0)
    return tuple(means), tuple(stds)
