# SPDX-License-Identifier: GPL-3.0-or-later
"""The data sets by name. A new one is one module; nothing else has to know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oac_blocks.plugins import Registry

# A loader returns a `Data`, a `Dataset` or a pair (train, test). It may have the parameters `root`, the folder of the
# files, and `download`, which says whether to fetch missing files.
Loader = Callable[..., Any]

DATASETS: Registry[Loader] = Registry(
    "data set",
    "gr_oac.data",
    {
        "letters": "fl_app.data.letters:load_letters",
        "emnist-letters": "fl_app.data.idx_sets:load_emnist_letters",
        "mnist": "fl_app.data.idx_sets:load_mnist",
        "fashion-mnist": "fl_app.data.idx_sets:load_fashion_mnist",
        "cifar10": "fl_app.data.torchvision_sets:load_cifar10",
        "cifar100": "fl_app.data.torchvision_sets:load_cifar100",
        "text": "fl_app.data.texts:load_text",
        "table": "fl_app.data.tables:load_table",
    },
)


def register_dataset(name: str, loader: Loader) -> None:
    """Make a data set known by its name in this process; ValueError if the name is taken.

    Parameters
    ----------
    name : str
        What ``[data] name`` calls it.
    loader : callable
        Returns a ``Data``, a ``Dataset`` or a pair (train, test).
    """
    DATASETS.register(name, loader)


def dataset_names() -> tuple[str, ...]:
    """Return the names of all data sets."""
    return DATASETS.names()


def canonical_dataset_name(name: str) -> str:
    """Return the registered name that `name` means; its case, hyphens and blanks do not matter."""
    return DATASETS.canonical(name)
