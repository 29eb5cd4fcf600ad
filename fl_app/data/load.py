# SPDX-License-Identifier: GPL-3.0-or-later
"""A data set by name."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from fl_app.core.names import canonical
from fl_app.data.cache import datasets_folder
from fl_app.data.dataset import DataError, Dataset
from fl_app.data.idx_sets import load_emnist_letters, load_fashion_mnist, load_mnist
from fl_app.data.letters import load_letters
from fl_app.data.torchvision_sets import load_cifar10, load_cifar100

PUBLIC_SETS: dict[str, Callable[[Path, bool], Dataset]] = {
    "emnist-letters": load_emnist_letters,
    "mnist": load_mnist,
    "fashion-mnist": load_fashion_mnist,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
}
DATASET_NAMES = ("letters", *PUBLIC_SETS)


def load_dataset(name: str, data_root: str | PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a data set into memory.

    name: "letters" (embedded, drawn at first use), or one of the public sets through torchvision;
    data_root: where their files are, and are downloaded to (default: ~/.cache/gr-oac/datasets);
    download: fetch what is missing there. Raises DataError where the data is missing or damaged.
    """
    name = canonical_dataset_name(name)
    if name == "letters":
        return load_letters()
    root = datasets_folder() if data_root is None else Path(data_root).expanduser()
    if data_root is not None and not root.is_dir() and (root.exists() or not download):
        raise DataError(f"data_root {root} is no folder")
    return PUBLIC_SETS[name](root, download)


def canonical_dataset_name(name: str) -> str:
    """The name as listed in DATASET_NAMES, from any spelling with other case, hyphens, blanks."""
    return canonical("data set", name, DATASET_NAMES)
