# SPDX-License-Identifier: GPL-3.0-or-later
"""The data sets by name. A new one is one module that calls ``register_dataset``; nothing else has to know it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from fl_app.core.names import canonical

if TYPE_CHECKING:
    from fl_app.data.dataset import Dataset

Loader = Callable[[Path, bool], "Dataset"]  # takes the folder of the files, and whether to download

# A text names the function of a module, which is imported when the data set is loaded.
_LOADERS: dict[str, Loader | str] = {
    "letters": "fl_app.data.letters:load_letters",
    "emnist-letters": "fl_app.data.idx_sets:load_emnist_letters",
    "mnist": "fl_app.data.idx_sets:load_mnist",
    "fashion-mnist": "fl_app.data.idx_sets:load_fashion_mnist",
    "cifar10": "fl_app.data.torchvision_sets:load_cifar10",
    "cifar100": "fl_app.data.torchvision_sets:load_cifar100",
}


def register_dataset(name: str, loader: Loader) -> None:
    """Make a data set known by its name; ValueError if the name is taken.

    Parameters
    ----------
    name : str
        What ``[data] name`` calls it.
    loader : callable
        Takes the folder of the files and whether to download missing files; returns a ``Dataset``.
    """
    if name in _LOADERS:
        raise ValueError(f"data set {name!r} must have a name that is free; there are {', '.join(dataset_names())}")
    _LOADERS[name] = loader


def dataset_names() -> tuple[str, ...]:
    """Return the names of all data sets."""
    return tuple(_LOADERS)


def canonical_dataset_name(name: str) -> str:
    """Return the registered name that `name` means; its case, hyphens and blanks do not matter."""
    return canonical("data set", name, dataset_names())


def loader_of(name: str) -> Loader:
    """Return the function that loads the data set of this name."""
    loader = _LOADERS[canonical_dataset_name(name)]
    if not isinstance(loader, str):
        return loader
    module, _, function = loader.partition(":")
    found: Loader = getattr(import_module(module), function)
    return found
