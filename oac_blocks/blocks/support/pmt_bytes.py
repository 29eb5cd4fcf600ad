# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert PMTs to bytes for a socket and back, with a check of the bytes before GNU Radio reads them.

GNU Radio's own reader trusts its input: twenty thousand nested pairs end the process, and eight bytes can announce a
vector of 4 GiB. The bytes are therefore checked first. In the format of GNU Radio 3.10, a part is a tag of one byte
followed by its content; lengths and numbers are big-endian.
"""

from __future__ import annotations

from typing import Any

import pmt

MOST_DEPTH = 64  # largest nesting depth; a dictionary of n entries has depth n
MOST_PARTS = 4096

_SYMBOL, _PAIR, _VECTOR, _DICTIONARY, _UNIFORM, _TUPLE = 0x02, 0x07, 0x08, 0x09, 0x0A, 0x0C
# Content length in bytes of the tags of fixed length: true, false, int32, double, complex, nil, uint64, int64.
_FIXED = {0x00: 0, 0x01: 0, 0x03: 4, 0x04: 8, 0x05: 16, 0x06: 0, 0x0B: 8, 0x0D: 8}
_ELEMENT_BYTES = (1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16)  # u8, s8, u16, s16, u32, s32, u64, s64, f32, f64, c32, c64


def serialise(message: Any) -> bytes:
    """Return the bytes of a message in the format of GNU Radio's ZMQ blocks."""
    data: bytes = pmt.serialize_str(message)
    return data


def deserialise(data: bytes) -> Any:
    """Return the PMT in these bytes; raise ValueError if they are not one PMT or if it is nested too deeply."""
    _walk(data)
    try:
        return pmt.deserialize_str(data)
    except Exception as error:  # PMT's own exceptions have no other common base class
        raise ValueError(f"not a PMT: {error}") from None


def _walk(data: bytes) -> None:
    at, parts = 0, 0
    open_parts = [1]  # number of parts that are still to come at each depth
    while open_parts:
        if open_parts[-1] == 0:
            open_parts.pop()
            continue
        open_parts[-1] -= 1
        parts += 1
        if parts > MOST_PARTS or len(open_parts) > MOST_DEPTH:
            raise ValueError(f"a PMT must have at most {MOST_PARTS} parts, {MOST_DEPTH} deep")
        at, inside = _part(data, at)
        if inside:
            open_parts.append(inside)
    if at != len(data):
        raise ValueError(f"a PMT of {at} bytes must not be followed by others, got {len(data)}")


def _part(data: bytes, at: int) -> tuple[int, int]:
    """Return the position after the part that begins here, and the number of its parts."""
    tag = _number(data, at, 1)
    at, inside = at + 1, 0
    if tag in _FIXED:
        at += _FIXED[tag]
    elif tag == _SYMBOL:
        at += 2 + _number(data, at, 2)
    elif tag in (_PAIR, _DICTIONARY):
        inside = 2
    elif tag in (_VECTOR, _TUPLE):
        at, inside = at + 4, _number(data, at, 4)
    elif tag == _UNIFORM:
        kind, count, padding = _number(data, at, 1), _number(data, at + 1, 4), _number(data, at + 5, 1)
        if kind >= len(_ELEMENT_BYTES):
            raise ValueError(f"a PMT must not have a vector of kind {kind}")
        at += 6 + padding + count * _ELEMENT_BYTES[kind]
    else:
        raise ValueError(f"a PMT must not have the tag {tag}")
    if at + inside > len(data):  # each part has at least one byte
        raise ValueError(f"a PMT must be complete, got {len(data)} bytes of at least {at + inside}")
    return at, inside


def _number(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise ValueError(f"a PMT must be complete, got {len(data)} bytes of at least {at + size}")
    return int.from_bytes(data[at : at + size], "big")
