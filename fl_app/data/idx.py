# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the idx format of MNIST and its relatives, plain or gzip.

A file holds the bytes 0, 0, the type, the number of dimensions, the sizes (32 bits, big-endian) and then the data.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fl_app.data.dataset import DataError

UNSIGNED_BYTE = 0x08  # the only type code that these data sets use


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Return the array of bytes in the file, which must have this number of dimensions (images 3, labels 1)."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(f"{path} is truncated or damaged: {error}") from error
    shape = _checked_shape(path, raw[: _header_bytes(dimensions)], len(raw), dimensions)
    return np.frombuffer(raw, np.uint8, offset=_header_bytes(dimensions)).reshape(shape).copy()


def check_idx(path: Path, dimensions: int) -> None:
    """Run the checks of `read_idx` for an unpacked file on its header and its size alone."""
    with path.open("rb") as stream:
        header = stream.read(_header_bytes(dimensions))
    _checked_shape(path, header, path.stat().st_size, dimensions)


def _header_bytes(dimensions: int) -> int:
    return 4 + 4 * dimensions


def _checked_shape(path: Path, header: bytes, file_bytes: int, dimensions: int) -> tuple[int, ...]:
    if len(header) < _header_bytes(dimensions):
        raise DataError(f"{path} is truncated: {file_bytes} bytes; its header alone has {_header_bytes(dimensions)}")
    expected = bytes((0, 0, UNSIGNED_BYTE, dimensions))
    if header[:4] != expected:
        raise DataError(
            f"{path} is not an idx file of {dimensions} dimensions: "
            f"it starts with {header[:4].hex()}, not with {expected.hex()}"
        )
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size, there = math.prod(shape), file_bytes - len(header)
    if there != size:
        kind = "truncated" if there < size else "damaged"
        raise DataError(f"{path} is {kind}: {there} bytes of data, but its header says {shape}, which is {size}")
    return shape
