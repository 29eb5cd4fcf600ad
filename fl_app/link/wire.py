# SPDX-License-Identifier: GPL-3.0-or-later
"""Encode messages for the wire: a header in msgpack, and each array as a raw frame after it.

    frames = pack(Message("done", sender=3, round=12, sequence=77, body={"loss": 0.7}, arrays={"payload": votes}))
    message = unpack(frames, max_bytes=1_000_000)

The header holds version, type, sender, round, sequence, a flat body of plain values, and name, dtype and shape of each
array. `unpack` checks all of it before it returns, and raises `WireError`, and nothing else, for any fault. No part of
a message is ever executed: there is no pickle, no eval and no msgpack extension type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from oac_blocks.errors import OacError

VERSION = 2  # version of the protocol
SERVER = -1  # sender number of the server, which is not a client
NO_ROUND = -1

MAX_HEADER_BYTES = 65_536
MAX_ARRAYS = 256  # ResNet-18 has 60 buffers
MAX_BODY_FIELDS = 32
MAX_NAME_CHARS = 64
MAX_DIMENSIONS = 8
MAX_NUMBER = 2**62

# Types by name, all little-endian on the wire. No type that holds Python objects is allowed here.
DTYPES: dict[str, np.dtype[Any]] = {
    "int8": np.dtype("<i1"),
    "uint8": np.dtype("<u1"),
    "int64": np.dtype("<i8"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
}

Plain = int | float | str | bool | None
Frame = bytes | memoryview
_HEADER_KEYS = {"v", "type", "from", "round", "seq", "body", "arrays"}


class WireError(OacError, ValueError):
    """The message is not valid; the text says why, and is safe to log."""


@dataclass(frozen=True, eq=False)
class Message:
    """Hold one message. The methods check a value of the body, or an array, before it is used."""

    type: str
    sender: int  # a client's number, or SERVER
    round: int  # NO_ROUND if the message concerns no round
    sequence: int  # grows by one or more with each message of a sender
    body: Mapping[str, Plain] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def whole(self, name: str, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`."""
        value = self.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise WireError(f"{self.type}: {name} must be a whole number from {low} to {high}")
        return value

    def number(self, name: str) -> float:
        """Return a float, which may be infinite or NaN."""
        value = self.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WireError(f"{self.type}: {name} must be a number")
        return float(value)

    def amount(self, name: str, most: float = math.inf) -> float:
        """Return a finite float, from 0 to `most`."""
        value = self.number(name)
        if not (math.isfinite(value) and 0 <= value <= most):
            limit = "" if math.isinf(most) else f", and {most:g} or less"
            raise WireError(f"{self.type}: {name} must be finite and 0 or more{limit}")
        return value

    def text(self, name: str, most_chars: int) -> str:
        """Return a text of at most `most_chars` characters."""
        value = self.body.get(name)
        if not isinstance(value, str) or len(value) > most_chars:
            raise WireError(f"{self.type}: {name} must be a text of at most {most_chars} characters")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        value = self.body.get(name)
        if not isinstance(value, bool):
            raise WireError(f"{self.type}: {name} must be true or false")
        return value

    def array(self, name: str, dtype: str, *shape: int) -> NDArray[Any]:
        """Return an array of exactly this dtype and shape."""
        value = self.arrays.get(name)
        if value is None or value.dtype != DTYPES[dtype] or value.shape != shape:
            given = "missing" if value is None else f"{value.dtype} of shape {value.shape}"
            raise WireError(f"{self.type}: {name} must be {dtype} of shape {shape}, but is {given}")
        return value


def pack(message: Message) -> list[Frame]:
    """Return the frames of a message. A message that `unpack` would refuse is an error here too."""
    arrays, frames = [], []
    for name, array in message.arrays.items():
        dtype = array.dtype.name
        if dtype not in DTYPES:
            raise WireError(f"{message.type}: {name} is {dtype}, but only {', '.join(DTYPES)} can be sent")
        shape = list(array.shape)  # taken before flattening, as numpy makes a vector of a scalar
        arrays.append([name, dtype, shape])
        frames.append(_raw(array, DTYPES[dtype]))
    return [pack_header(message, arrays), *frames]


def pack_header(message: Message, arrays: Sequence[Sequence[Any]]) -> bytes:
    """Return the first frame alone, for a sender that packs the same arrays once for many receivers."""
    header = {
        "v": VERSION,
        "type": message.type,
        "from": message.sender,
        "round": message.round,
        "seq": message.sequence,
        "body": dict(message.body),
        "arrays": [list(entry) for entry in arrays],
    }
    packed: bytes = msgpack.packb(header)
    _check_header(header)
    if len(packed) > MAX_HEADER_BYTES:
        raise WireError(f"{message.type}: the header has {len(packed)} bytes, more than {MAX_HEADER_BYTES}")
    return packed


def _raw(array: NDArray[Any], dtype: np.dtype[Any]) -> Frame:
    flat = np.ascontiguousarray(array, dtype)
    return flat.reshape(-1).view(np.uint8).data if flat.size else b""


def unpack(frames: Sequence[Frame], max_bytes: int) -> Message:
    """Return the message in these frames after all checks; its arrays are read-only views of the frames."""
    if not 1 <= len(frames) <= 1 + MAX_ARRAYS:
        raise WireError(f"a message has 1 to {1 + MAX_ARRAYS} frames, not {len(frames)}")
    sizes = [len(frame) for frame in frames]
    if sum(sizes) > max_bytes:
        raise WireError(f"the message has {sum(sizes)} bytes, more than {max_bytes}")
    if sizes[0] > MAX_HEADER_BYTES:
        raise WireError(f"the header has {sizes[0]} bytes, more than {MAX_HEADER_BYTES}")
    header = _read_header(frames[0])
    if len(header["arrays"]) != len(frames) - 1:
        raise WireError(f"{len(header['arrays'])} arrays are declared, but {len(frames) - 1} came")
    arrays: dict[str, NDArray[Any]] = {}
    for (name, dtype, shape), frame, size in zip(header["arrays"], frames[1:], sizes[1:], strict=True):
        wanted = math.prod(shape) * DTYPES[dtype].itemsize
        if size != wanted:
            raise WireError(f"array {name!r} is declared with {wanted} bytes, but has {size}")
        array = np.frombuffer(frame, DTYPES[dtype]).reshape(shape)
        array.flags.writeable = False
        arrays[name] = array
    return Message(header["type"], header["from"], header["round"], header["seq"], header["body"], arrays)


def _read_header(frame: Frame) -> dict[str, Any]:
    try:
        # msgpack makes containers as large as they are declared; the limits keep a few bytes from taking much memory.
        header = msgpack.unpackb(
            frame,
            raw=False,
            strict_map_key=True,
            max_map_len=MAX_BODY_FIELDS,
            max_array_len=MAX_ARRAYS,
            max_bin_len=0,
            max_ext_len=0,
        )
    # msgpack raises many types of exceptions, among them RecursionError and UnicodeDecodeError.
    except Exception as error:
        raise WireError(f"the header is not msgpack ({type(error).__name__})") from None
    _check_header(header)
    checked: dict[str, Any] = header
    return checked


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or "v" not in header:
        raise WireError("the header is not a map with a version")
    if header["v"] != VERSION or isinstance(header["v"], bool):
        raise WireError(f"this end speaks version {VERSION} of the protocol, but the other end does not")
    if header.keys() != _HEADER_KEYS:
        raise WireError("the header does not have the expected keys")
    if not _is_name(header["type"]):
        raise WireError("the type must be a short name")
    for key, low in (("from", SERVER), ("round", NO_ROUND), ("seq", 0)):
        value = header[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_NUMBER:
            raise WireError(f"{key!r} must be a whole number from {low} on")
    _check_body(header["body"])
    _check_arrays(header["arrays"])


def _check_body(body: Any) -> None:
    if not isinstance(body, dict) or len(body) > MAX_BODY_FIELDS:
        raise WireError(f"the body must be a map of at most {MAX_BODY_FIELDS} values")
    for name, value in body.items():
        if not _is_name(name):
            raise WireError("a name in the body is not a short name")
        if not (value is None or isinstance(value, int | float | str)):  # bool is an int
            raise WireError(f"the body's {name!r} is not a plain value")


def _check_arrays(arrays: Any) -> None:
    if not isinstance(arrays, list) or len(arrays) > MAX_ARRAYS:
        raise WireError(f"the arrays must be a list of at most {MAX_ARRAYS}")
    names = set()
    for entry in arrays:
        if not isinstance(entry, list) or len(entry) != 3:
            raise WireError("an array is declared by name, dtype and shape")
        name, dtype, shape = entry
        if not _is_name(name) or name in names:
            raise WireError("an array's name is not a short name, or comes twice")
        names.add(name)
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise WireError(f"array {name!r}: the dtype must be one of {', '.join(DTYPES)}")
        if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            raise WireError(f"array {name!r}: the shape must have at most {MAX_DIMENSIONS} dimensions")
        for extent in shape:
            if isinstance(extent, bool) or not isinstance(extent, int) or not 0 <= extent <= MAX_NUMBER:
                raise WireError(f"array {name!r}: the shape must hold whole numbers from 0 on")
        if math.prod(max(extent, 1) for extent in shape) > MAX_NUMBER // 8:  # numpy counts bytes of empty arrays too
            raise WireError(f"array {name!r}: the shape {shape} is too large")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and value.isprintable() and value.isascii()
