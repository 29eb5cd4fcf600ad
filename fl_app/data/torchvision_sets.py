# SPDX-License-Identifier: GPL-3.0-or-later
"""Load CIFAR through torchvision, and fetch torchvision's data sets with one clear error if that fails."""

from __future__ import annotations

import hashlib
import socket
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fl_app.core.torchvision_compat import load_torchvision
from fl_app.data.dataset import DataError, Dataset

NETWORK_TIMEOUT_SECONDS = 20.0  # seconds without data before a download fails

# The exceptions of torchvision for a missing file, a wrong checksum, no network, a damaged archive or a full disk.
FAILURES = (RuntimeError, OSError, ValueError, AssertionError, EOFError, zipfile.BadZipFile, tarfile.TarError)


def load_cifar10(root: Path, download: bool) -> Dataset:
    """Load CIFAR-10 through torchvision."""
    return load_cifar("cifar10", load_torchvision().datasets.CIFAR10, root, download)


def load_cifar100(root: Path, download: bool) -> Dataset:
    """Load CIFAR-100 through torchvision."""
    return load_cifar("cifar100", load_torchvision().datasets.CIFAR100, root, download)


def load_cifar(name: str, kind: Any, root: Path, download: bool) -> Dataset:
    """Load CIFAR-10 or CIFAR-100; `kind` is torchvision's class, which knows its files and their checksums."""
    checksums = dict((*kind.train_list, *kind.test_list))
    checksums[kind.meta["filename"]] = kind.meta["md5"]
    folder = root / kind.base_folder
    if not download:
        _check_sums(folder, checksums)
    try:
        train, test = fetch(kind, name, folder, tuple(checksums), root, download)
    except DataError:
        _check_sums(folder, checksums)  # if a damaged file is the reason, this raises the better message
        raise
    return Dataset(
        name,
        np.ascontiguousarray(train.data.transpose(0, 3, 1, 2)),
        np.array(train.targets, np.int64),
        np.ascontiguousarray(test.data.transpose(0, 3, 1, 2)),
        np.array(test.targets, np.int64),
        class_names=tuple(train.classes),
    )


def _check_sums(folder: Path, checksums: dict[str, str]) -> None:
    for file, expected in checksums.items():
        path = folder / file
        if path.exists() and _md5(path) != expected:
            raise DataError(
                f"{path} is truncated or damaged ({path.stat().st_size} bytes, MD5 {_md5(path)}, expected {expected}): "
                f"replace it, or delete it and allow the download"
            )


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def fetch(
    kind: Any, name: str, folder: Path, files: Sequence[str], root: Path, download: bool, **options: Any
) -> tuple[Any, Any]:
    """Return torchvision's training and test set; if that fails, the error says which files belong where."""
    try:
        with _network_timeout():
            train, test = (kind(str(root), train=train, download=download, **options) for train in (True, False))
    except FAILURES as error:
        missing = [file for file in files if not (folder / file).exists()]
        tried = f"the download failed ({_one_line(error)})" if download else "downloading is switched off"
        if not missing:
            raise DataError(f"{name} in {folder} cannot be read: {_one_line(error)}") from error
        raise DataError(
            f"{name} is not in {root} and {tried}. Put {', '.join(missing)} into {folder}, "
            f"or use the embedded data set 'letters'"
        ) from error
    return train, test


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _network_timeout() -> Iterator[None]:
    """Limit the time of network operations: torchvision sets no timeout, and a dead network would block for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
