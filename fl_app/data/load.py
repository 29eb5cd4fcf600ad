# SPDX-License-Identifier: GPL-3.0-or-later
"""Load a data set by its name."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from fl_app.data.cache import datasets_folder
from fl_app.data.dataset import DataError
from fl_app.data.registry import DATASETS
from oac_blocks.plugins import PluginError, call


def load_dataset(
    name: str,
    data_root: str | PathLike[str] | None = None,
    download: bool = True,
    args: Mapping[str, Any] | None = None,
) -> Any:
    """Load a data set into memory.

    Parameters
    ----------
    name
        "letters" (embedded, drawn at first use), one of the public sets, one that a package offers or that was
        registered, or an import string.
    data_root
        Folder of the files of public sets; downloads go there too (default: ~/.cache/gr-oac/datasets).
    download
        Whether to download files that are missing in `data_root`.
    args
        Further arguments of the loader, as [data.args] has them.

    Returns
    -------
    Dataset, Data or pair
        What the loader returns; `fl_app.data.data.as_data` makes a `Data` of each of them.

    Raises
    ------
    DataError
        If the data is missing or damaged.
    PluginError
        If there is no such data set, or if its loader fails.
    """
    try:
        loader = DATASETS.load(name)
    except PluginError as error:
        raise PluginError(f"[data] name = {error}") from None
    root = datasets_folder() if data_root is None else Path(data_root).expanduser()
    if data_root is not None and not root.is_dir() and (root.exists() or not download):
        raise DataError(f"data_root {root} is not a folder")
    return call(loader, f"[data] name = {name!r}", args or {}, {"root": root, "download": download})
