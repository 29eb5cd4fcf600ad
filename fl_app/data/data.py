# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold training and test samples of any kind with the task that they are for: arrays, tensors or torch Datasets."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fl_app.core.samples import ArraySamples, DatasetSamples, Samples
from fl_app.core.task import Classification, Task, default_task
from fl_app.data.dataset import DataError, Dataset

Indices = NDArray[np.int64]


class Split(ABC):
    """Hold the samples for training, or those for the test, and hand out parts of them."""

    targets: NDArray[Any]  # one row for each sample

    def __len__(self) -> int:
        return len(self.targets)

    @abstractmethod
    def samples(self, indices: Indices) -> Samples:
        """Return some of the samples, as a client holds them."""

    @abstractmethod
    def subset(self, indices: Indices) -> Split:
        """Return a split that has these samples alone."""

    @abstractmethod
    def identity(self) -> Iterator[bytes]:
        """Yield bytes that differ if the inputs differ."""

    def all(self) -> Samples:
        return self.samples(np.arange(len(self)))


class ArraySplit(Split):
    """Hold inputs and targets as arrays."""

    def __init__(self, inputs: NDArray[Any], targets: NDArray[Any]) -> None:
        self.inputs, self.targets = inputs, targets

    def samples(self, indices: Indices) -> Samples:
        return ArraySamples(self.inputs[indices], self.targets[indices])

    def subset(self, indices: Indices) -> ArraySplit:
        return ArraySplit(self.inputs[indices], self.targets[indices])

    def identity(self) -> Iterator[bytes]:
        yield repr((self.inputs.dtype.str, self.inputs.shape)).encode()
        yield np.ascontiguousarray(self.inputs).tobytes()


class TorchSplit(Split):
    """Read samples from a torch Dataset when they are needed; its targets are read once."""

    def __init__(
        self, dataset: torch.utils.data.Dataset[Any], targets: NDArray[Any], indices: Indices | None = None
    ) -> None:
        self.dataset, self.targets = dataset, targets
        self._indices = np.arange(len(targets)) if indices is None else indices

    def samples(self, indices: Indices) -> Samples:
        return DatasetSamples(self.dataset, self._indices[indices])

    def subset(self, indices: Indices) -> TorchSplit:
        return TorchSplit(self.dataset, self.targets[indices], self._indices[indices])

    def identity(self) -> Iterator[bytes]:
        """Yield the first sample alone: to read them all would take as long as an epoch."""
        inputs, _ = self.samples(np.zeros(1, np.int64)).batch(np.zeros(1, np.int64), np.random.default_rng(0))
        yield inputs.numpy().tobytes()


class ImageSplit(Split):
    """Hold images as uint8, and scale them when a client takes its part: float32 needs four times the memory."""

    def __init__(self, dataset: Dataset, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> None:
        self._dataset, self._images, self.targets = dataset, images, labels

    def samples(self, indices: Indices) -> Samples:
        return ArraySamples(self._dataset.normalise(self._images[indices]), self.targets[indices])

    def subset(self, indices: Indices) -> ImageSplit:
        return ImageSplit(self._dataset, self._images[indices], self.targets[indices])

    def identity(self) -> Iterator[bytes]:
        """Yield nothing: the data set's mean and standard deviation depend on every pixel, and stand for the images."""
        yield from ()


class Data:
    """Hold training and test samples, and the task that they are for.

    Parameters
    ----------
    train, test
        A torch Dataset whose items are pairs (input, target), or a pair (inputs, targets) of arrays or tensors.
        Whole-number targets mean classification, others regression. uint8 inputs of two dimensions or more are
        scaled to 0..1.
    task : Task, optional
        By default the task that the targets suggest.
    name : str
        Name of the data set, for figures and folders.
    class_names : sequence of str, optional
        Names of the classes, for figures.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(100, 4)), rng.integers(0, 3, 100)
    >>> data = oac.Data((x[:80], y[:80]), (x[80:], y[80:]))
    >>> data.task.name, len(data.train), data.facts()["classes"]
    ('classification', 80, 3)
    """

    def __init__(
        self,
        train: Any,
        test: Any,
        *,
        task: Task | None = None,
        name: str = "own data",
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.train, self.test = _split_of(train, f"{name}: training"), _split_of(test, f"{name}: test")
        self.task = task or default_task(self.train.targets)
        self.class_names = None if class_names is None else tuple(class_names)
        if self.train.targets.shape[1:] != self.test.targets.shape[1:]:
            raise DataError(
                f"{name}: training targets have shape {self.train.targets.shape[1:]}, but test targets "
                f"have {self.test.targets.shape[1:]}"
            )

    @classmethod
    def of_images(cls, dataset: Dataset) -> ImageData:
        """Return the data of an image data set."""
        return ImageData(dataset)

    def subset(self, train: Indices | None, test: Indices | None) -> Data:
        """Return the data with some of the samples; None keeps them all."""
        return Data(
            self.train if train is None else self.train.subset(train),
            self.test if test is None else self.test.subset(test),
            task=self.task,
            name=self.name,
            class_names=self.class_names,
        )

    def facts(self, task: Task | None = None) -> dict[str, Any]:
        """Return what a model may want to know: the shape of an input, the number of classes and the like."""
        one = np.zeros(1, np.int64)
        inputs, _ = self.train.samples(one).batch(one, np.random.default_rng(0))
        shape = tuple(int(size) for size in inputs.shape[1:])
        images = {"in_channels": shape[0], "image_size": shape[1]} if len(shape) == 3 else {}
        targets = np.concatenate([self.train.targets, self.test.targets])
        facts = {"input_shape": shape, **images, **(task or self.task).facts(inputs.numpy(), targets)}
        if self.class_names is not None and "classes" in facts:
            facts["classes"] = len(self.class_names)
        return facts

    def identity(self) -> Iterator[bytes]:
        """Yield bytes that identify the data, so that a run does not go on with other data."""
        yield repr((self.name, self.task.name)).encode()
        for split in (self.train, self.test):
            yield from split.identity()
            yield np.ascontiguousarray(split.targets).tobytes()


class ImageData(Data):
    """Hold an image data set of the built-in kind: uint8 images, scaled by the training set's mean and deviation."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.name, self.class_names = dataset, dataset.name, dataset.class_names
        self.train = ImageSplit(dataset, dataset.train_images, dataset.train_labels)
        self.test = ImageSplit(dataset, dataset.test_images, dataset.test_labels)
        self.task = Classification()

    def subset(self, train: Indices | None, test: Indices | None) -> ImageData:
        changes: dict[str, Any] = {}
        if train is not None:
            changes.update(train_images=self.dataset.train_images[train], train_labels=self.dataset.train_labels[train])
        if test is not None:
            changes.update(test_images=self.dataset.test_images[test], test_labels=self.dataset.test_labels[test])
        return ImageData(replace(self.dataset, **changes))

    def identity(self) -> Iterator[bytes]:
        yield repr((self.name, self.dataset.mean, self.dataset.std)).encode()
        yield self.dataset.train_labels.tobytes()
        yield self.dataset.test_labels.tobytes()


def as_data(loaded: Any, what: str) -> Data:
    """Make a `Data` of what a loader returned; `what` names the setting in an error."""
    if isinstance(loaded, Data):
        return loaded
    if isinstance(loaded, Dataset):
        return Data.of_images(loaded)
    if isinstance(loaded, tuple | list) and len(loaded) == 2:
        return Data(*loaded)
    raise DataError(f"{what}: a data set is a Data or a pair (train, test), not {type(loaded).__name__}")


def digest_of(data: Data, parts: Sequence[Indices], w: NDArray[np.float32]) -> str:
    """Return a hash of the data, its partition and the first weights: a run must not go on with others."""
    digest = hashlib.sha256()
    for piece in data.identity():
        digest.update(piece)
    for part in parts:
        digest.update(part.tobytes())
    digest.update(w.tobytes())
    return digest.hexdigest()


def _split_of(given: Any, what: str) -> Split:
    if isinstance(given, Split):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        inputs, targets = _array(given[0], f"{what} inputs"), _array(given[1], f"{what} targets")
        if len(inputs) != len(targets) or len(inputs) == 0:
            raise DataError(f"{what}: {len(inputs)} inputs do not fit {len(targets)} targets")
        return ArraySplit(_as_inputs(inputs), _as_targets(targets))
    is_array = isinstance(given, np.ndarray | torch.Tensor)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not (is_array or isinstance(given, Mapping)):
        if len(given) == 0:
            raise DataError(f"{what} data is empty")
        return TorchSplit(given, _as_targets(_targets_of(given, what)))
    hint = ": write Data((x, y), (x_test, y_test))" if is_array else ""
    raise DataError(
        f"{what} data must be a torch Dataset with a length, or a pair (inputs, targets) of arrays, "
        f"not {type(given).__name__}{hint}"
    )


def _array(given: Any, what: str) -> NDArray[Any]:
    array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be numbers, one row for each sample, not {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{what} have {np.count_nonzero(~np.isfinite(array))} values that are not finite")
    return array


def _as_inputs(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == np.uint8 and array.ndim > 1:
        return array.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(array, np.float32 if array.dtype.kind == "f" else np.int64)


def _as_targets(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, np.float32 if array.dtype.kind == "f" else np.int64)


def _targets_of(dataset: Any, what: str) -> NDArray[Any]:
    """Return the targets of a torch Dataset: from the attribute that torchvision's sets have, or item by item."""
    for name in ("targets", "labels"):
        known = getattr(dataset, name, None)
        if known is not None and hasattr(known, "__len__") and len(known) == len(dataset):
            return _array(known, f"{what} targets")
    try:
        rows = [dataset[index][1] for index in range(len(dataset))]
    except (TypeError, IndexError, KeyError) as error:
        raise DataError(f"{what} data: an item must be a pair (input, target): {error}") from None
    return _array([np.asarray(row) for row in rows], f"{what} targets")
