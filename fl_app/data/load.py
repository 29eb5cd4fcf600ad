# SPDX-License-Identifier: GPL-3.0-or-later
"""Load a data set by its name."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from fl_app.data.cache import datasets_folder
from fl_app.data.dataset import DataError, Dataset
from fl_app.data.registry import loader_of


def load_dataset(name: str, data_root: str | PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a data set into memory.

    Parameters
    ----------
    name
        "letters" (embedded, drawn at first use), one of the public sets, or one that was registered.
    data_root
        Folder of the files of public sets; downloads go there too (default: ~/.cache/gr-oac/datasets).
    download
        Whether to download files that are missing in `data_root`.

    Raises
    ------
    DataError
        If the data is missing or damaged.
    """
    loader = loader_of(name)
    root = datasets_folder() if data_root is None else Path(data_root).expanduser()
    if data_root is not None and not root.is_dir() and (root.exists() or not download):
        raise DataError(f"data_root {root} is not a folder")
    return loader(root, download)
