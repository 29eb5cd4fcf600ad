# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert PDUs between NumPy and PMT: a dictionary of metadata and a vector of votes, soft values or samples.

A PMT vector is written and read through its serialised form. That needs one copy, while ``init_u8vector`` and
``to_python`` loop over the elements (5 and 1.4 ms for 21,880 votes against 0.01 ms). Votes (int8) are sent as u8vector,
because GNU Radio's ``pmt.to_python`` fails on s8vector; both types are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pmt

Metadata = dict[str, Any]  # names to PMT values, which are passed on unchanged

_UNIFORM_VECTOR = 0x0A
# PMT's codes for the types of vectors, and the format of their elements.
_U8, _S8, _F32, _C32 = 0x00, 0x01, 0x08, 0x0A
_WRITTEN_AS = {np.dtype(np.int8): _U8, np.dtype(np.float32): _F32, np.dtype(np.complex64): _C32}
_READ_FROM = {np.dtype(np.int8): (_U8, _S8), np.dtype(np.float32): (_F32,), np.dtype(np.complex64): (_C32,)}
_NAMES = {_U8: "u8vector", _S8: "s8vector", _F32: "f32vector", _C32: "c32vector"}
_IS_KIND = {_U8: pmt.is_u8vector, _S8: pmt.is_s8vector, _F32: pmt.is_f32vector, _C32: pmt.is_c32vector}
_EMPTY = pmt.init_u8vector(0, [])
_HEADER_BYTES = 8  # tag, kind, length (4 bytes, big-endian), number of padding bytes (one) and the padding itself


class Pdu(NamedTuple):
    """The data and the metadata of a PDU."""

    metadata: Metadata
    data: npt.NDArray[Any]


def to_vector(data: npt.NDArray[Any]) -> Any:
    """Return an int8, float32 or complex64 array as a PMT vector; int8 becomes a u8vector of the same bytes."""
    flat = np.ascontiguousarray(data).ravel()
    if flat.dtype not in _WRITTEN_AS:
        raise ValueError(f"data must be int8, float32 or complex64, got {flat.dtype}")
    header = bytes([_UNIFORM_VECTOR, _WRITTEN_AS[flat.dtype]]) + len(flat).to_bytes(4, "big") + b"\x01\x00"
    return pmt.deserialize_str(header + _swapped(flat).tobytes())


def from_vector(vector: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any] | str:
    """Return the array in a PMT vector of the kind that carries ``dtype``, or a text that says what is wrong."""
    wanted = np.dtype(dtype)
    for kind in _READ_FROM[wanted]:
        if _IS_KIND[kind](vector):
            raw = np.frombuffer(pmt.serialize_str(vector), wanted, offset=_HEADER_BYTES)
            return _swapped(raw) if wanted.itemsize > 1 else raw
    return f"data must be a {' or '.join(_NAMES[kind] for kind in _READ_FROM[wanted])}, got {_shortened(vector)}"


def make(data: npt.NDArray[Any], metadata: Mapping[str, Any] | None = None) -> Any:
    """Return a PDU as PMT; metadata values may be PMTs or anything that ``pmt.to_pmt`` accepts."""
    return pmt.cons(to_dict(metadata or {}), to_vector(data))


def read(message: Any, dtype: npt.DTypeLike) -> Pdu | str:
    """Return the PDU in a message, with non-empty data of this dtype, or a text that says what is wrong."""
    if not pmt.is_pair(message) or not pmt.is_dict(pmt.car(message)):
        return f"a PDU must be a pair of a dictionary and a vector, got {_shortened(message)}"
    data = from_vector(pmt.cdr(message), dtype)
    if isinstance(data, str):
        return data
    if not len(data):
        return "data must hold at least one element, got an empty vector"
    metadata = from_dict(pmt.car(message))
    return metadata if isinstance(metadata, str) else Pdu(metadata, data)


def notice(metadata: Mapping[str, Any]) -> Any:
    """Return a PDU that has only metadata and an empty vector."""
    return pmt.cons(to_dict(metadata), _EMPTY)


def read_notice(message: Any) -> dict[str, Any] | str:
    """Return the metadata of a PDU or a dictionary in Python types, or a text that says what is wrong."""
    dictionary = pmt.car(message) if pmt.is_pair(message) and pmt.is_dict(pmt.car(message)) else message
    if not pmt.is_dict(dictionary):
        return f"a notice must be a dictionary or a PDU, got {_shortened(message)}"
    metadata = from_dict(dictionary)
    if isinstance(metadata, str):
        return metadata
    return {name: pmt.to_python(value) for name, value in metadata.items()}


def float64_vector(values: Sequence[float] | npt.NDArray[np.float64]) -> Any:
    """Return a few numbers as a metadata value."""
    return pmt.init_f64vector(len(values), [float(value) for value in values])


def to_dict(metadata: Mapping[str, Any]) -> Any:
    """Return metadata as a PMT dictionary."""
    result = pmt.make_dict()
    for name, value in metadata.items():
        result = pmt.dict_add(result, pmt.intern(name), as_pmt(value))
    return result


def from_dict(dictionary: Any) -> Metadata | str:
    """Return the metadata in a PMT dictionary, or a text that says what is wrong."""
    items, metadata = pmt.dict_items(dictionary), {}
    for i in range(pmt.length(items)):
        entry = pmt.nth(i, items)
        if not pmt.is_symbol(pmt.car(entry)):
            return f"names in the metadata must be symbols, got {_shortened(pmt.car(entry))}"
        metadata[pmt.symbol_to_string(pmt.car(entry))] = pmt.cdr(entry)
    return metadata


def as_pmt(value: Any) -> Any:
    """Return a value as PMT; PMTs are returned unchanged."""
    return value if isinstance(value, pmt.pmt_base) else pmt.to_pmt(value)


def _swapped(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Swap between this machine's byte order and PMT's big-endian order, in each part of complex numbers."""
    if array.dtype.itemsize == 1:
        return array
    parts = array.view(np.float32)
    return parts.astype(parts.dtype.newbyteorder("S")).view(np.uint32).view(array.dtype)


def _shortened(value: Any) -> str:
    """Return a short text for a PMT in a message to the user, without the megabytes that it may hold."""
    if pmt.is_uniform_vector(value):
        return f"a vector of {pmt.length(value)} elements of another kind"
    if pmt.is_symbol(value) or pmt.is_number(value) or pmt.is_bool(value):
        return str(value)
    return "a pair" if pmt.is_pair(value) else f"a {type(value).__name__}"
