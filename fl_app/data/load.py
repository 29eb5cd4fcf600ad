# SPDX-License-Identifier: GPL-3.0-or-later
"""Load a data set by its name."""

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

    Parameters
    ----------
    name
        "letters" (embedded, drawn at first use), or one of the public sets, which torchvision reads.
    data_root
        Folder of the files of public sets; downloads go there too (default: ~/.cache/gr-oac/datasets).
    download
        Whether to download files that are missing in `data_root`.

    Raises
    ------
    DataError
        If the data is missing or damaged.
    """
    name = canonical_dataset_name(name)
    if name == "letters":
        return load_letters()
    root = datasets_folder() if data_root is None else Path(data_root).expanduser()
    if data_root is not None and not root.is_dir() and (root.exists() or not download):
        raise DataError(f"data_root {root} is not a folder")
    return PUBLIC_SETS[name](root, download)


def canonical_dataset_name(name: str) -> str:
    """Return the name as DATASET_NAMES lists it; case, hyphens and blanks of `name` do not matter."""
    return canonical("data set", name, DATASET_NAMES)
