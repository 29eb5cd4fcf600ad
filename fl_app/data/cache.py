# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep arrays that can be made again in a cache folder, where each file is either whole or absent."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return the cache folder: $GR_OAC_CACHE, or ~/.cache/gr-oac if that variable is not set."""
    chosen = os.environ.get("GR_OAC_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "gr-oac"


def datasets_folder() -> Path:
    """Return the folder of public data sets and their downloads, used unless the user names another."""
    return cache_folder() / "datasets"


def content_hash(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 over names, types, shapes and bytes of the arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def load_or_make(path: Path, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays in `path`; if the file is missing or damaged, make them with `make` and keep them there.

    If the folder cannot be written, the arrays are made again next time; the result is the same.
    """
    arrays = _read(path)
    if arrays is not None:
        return arrays
    arrays = make()
    try:
        _write(path, arrays)
    except OSError as error:
        _log.warning("cannot keep %s: %s; it will be made again next time", path, error)
    return arrays


def _read(path: Path) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        expected = str(arrays.pop("sha256"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        _log.warning("%s is damaged (%s); making it again", path, error)
        return None
    if content_hash(arrays) != expected:
        _log.warning("%s is damaged (its content does not match its hash); making it again", path)
        return None
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    """Write under a temporary name, then rename, so that a reader sees either the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, sha256=np.array(content_hash(arrays)), **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
