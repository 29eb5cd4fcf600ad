# SPDX-License-Identifier: GPL-3.0-or-later
"""Load MNIST, FashionMNIST and EMNIST letters, which have four idx files each.

torchvision downloads and reads the files. This module checks their sizes and headers first, because torchvision's
error for a damaged file does not name the file. FashionMNIST from Debian's package (gzip) is read without torchvision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fl_app.core.torchvision_compat import load_torchvision
from fl_app.data.dataset import Dataset, Images, Labels
from fl_app.data.idx import check_idx, read_idx
from fl_app.data.torchvision_sets import fetch

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # folder of the Debian package dataset-fashion-mnist

MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
EMNIST_FILES = (
    "emnist-letters-train-images-idx3-ubyte",
    "emnist-letters-train-labels-idx1-ubyte",
    "emnist-letters-test-images-idx3-ubyte",
    "emnist-letters-test-labels-idx1-ubyte",
)

DIGITS = tuple("0123456789")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load_mnist(root: Path, download: bool) -> Dataset:
    """Load MNIST through torchvision."""
    return Dataset("mnist", *_through_torchvision("mnist", "MNIST", MNIST_FILES, root, download), class_names=DIGITS)


def load_emnist_letters(root: Path, download: bool) -> Dataset:
    """Load EMNIST letters with labels 0..25 (the files have 1..26) and upright images (the files transpose them)."""
    train_images, train_labels, test_images, test_labels = _through_torchvision(
        "emnist-letters", "EMNIST", EMNIST_FILES, root, download, split="letters"
    )
    return Dataset(
        "emnist-letters",
        np.ascontiguousarray(train_images.swapaxes(2, 3)),
        train_labels - 1,
        np.ascontiguousarray(test_images.swapaxes(2, 3)),
        test_labels - 1,
        class_names=LETTERS,
    )


def load_fashion_mnist(root: Path, download: bool) -> Dataset:
    """Load FashionMNIST from `root` if it has the files, else from Debian's package, else through torchvision."""
    folders = [root / "FashionMNIST" / "raw", root / "fashion-mnist", DEBIAN_FASHION_MNIST]
    if "fashion" in root.name.lower():  # in another folder, files of these names could be MNIST's
        folders.insert(0, root)
    for folder in folders:
        if any(_variant(folder, name).exists() for name in MNIST_FILES):
            return Dataset("fashion-mnist", *_read_files(folder, MNIST_FILES), class_names=FASHION)
    parts = _through_torchvision("fashion-mnist", "FashionMNIST", MNIST_FILES, root, download)
    return Dataset("fashion-mnist", *parts, class_names=FASHION)


def _variant(folder: Path, name: str) -> Path:
    """Return the path of the file, or of its gzip if only that exists."""
    packed = folder / f"{name}.gz"
    return packed if packed.exists() and not (folder / name).exists() else folder / name


def _read_files(folder: Path, names: tuple[str, ...]) -> tuple[Images, Labels, Images, Labels]:
    train_images, train_labels, test_images, test_labels = (
        read_idx(_variant(folder, name), _dimensions(name)) for name in names
    )
    return (
        train_images[:, None],
        train_labels.astype(np.int64),
        test_images[:, None],
        test_labels.astype(np.int64),
    )


def _through_torchvision(
    name: str, class_name: str, files: tuple[str, ...], root: Path, download: bool, **options: Any
) -> tuple[Images, Labels, Images, Labels]:
    folder = root / class_name / "raw"
    for file in files:
        if (folder / file).exists():
            check_idx(folder / file, _dimensions(file))
    train, test = fetch(
        getattr(load_torchvision().datasets, class_name), name, folder, files, root, download, **options
    )
    return (
        train.data.numpy()[:, None],
        train.targets.numpy().astype(np.int64),
        test.data.numpy()[:, None],
        test.targets.numpy().astype(np.int64),
    )


def _dimensions(file: str) -> int:
    return 3 if "idx3" in file else 1
