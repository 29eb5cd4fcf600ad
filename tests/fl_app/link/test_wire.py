# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire format: what is packed comes out the same, and garbage raises one kind of error alone."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fl_app.link.wire import (
    DTYPES,
    MAX_ARRAYS,
    MAX_HEADER_BYTES,
    MAX_NAME_CHARS,
    NO_ROUND,
    SERVER,
    VERSION,
    Message,
    WireError,
    pack,
    unpack,
)

PLENTY = 10_000_000

names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=MAX_NAME_CHARS)
plain = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=30), st.booleans(), st.none())
some_array = st.sampled_from(list(DTYPES.values())).flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)
messages = st.builds(
    Message,
    type=names,
    sender=st.integers(SERVER, 2**62),
    round=st.integers(NO_ROUND, 2**62),
    sequence=st.integers(0, 2**62),
    body=st.dictionaries(names, plain, max_size=8),
    arrays=st.dictionaries(names, some_array, max_size=4),
)


def wire(frames):
    """As a socket delivers them."""
    return [bytes(frame) for frame in frames]


@given(messages)
def test_round_trip(message):
    back = unpack(wire(pack(message)), PLENTY)
    assert (back.type, back.sender, back.round, back.sequence) == (
        message.type,
        message.sender,
        message.round,
        message.sequence,
    )
    assert back.body.keys() == message.body.keys()
    for name, value in message.body.items():
        assert type(back.body[name]) is type(value)
        assert back.body[name] == value or (value != value and back.body[name] != back.body[name])
    assert list(back.arrays) == list(message.arrays)
    for name, array in message.arrays.items():
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].shape == array.shape
        assert back.arrays[name].tobytes() == array.tobytes()
        assert not back.arrays[name].flags.writeable


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_garbage_raises_one_kind_of_error(frames):
    with pytest.raises(WireError):
        unpack(frames, PLENTY)


packable = st.integers(-(2**63), 2**64 - 1)  # what msgpack can carry at all
any_value = st.recursive(
    st.one_of(plain, st.binary(max_size=10)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | packable, inner, max_size=4),
    max_leaves=10,
)


@given(messages, st.data())
def test_mutated_messages_raise_one_kind_of_error_or_are_sound(message, data):
    frames = wire(pack(message))
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "swap", "field"]))
    which = data.draw(st.integers(0, len(frames) - 1))
    if kind == "flip" and frames[which]:
        place = data.draw(st.integers(0, len(frames[which]) - 1))
        changed = bytearray(frames[which])
        changed[place] ^= data.draw(st.integers(1, 255))
        frames[which] = bytes(changed)
    elif kind == "cut":
        frames[which] = frames[which][: data.draw(st.integers(0, len(frames[which])))]
    elif kind == "grow":
        frames[which] += data.draw(st.binary(min_size=1, max_size=20))
    elif kind == "swap":
        frames = data.draw(st.permutations(frames))
    else:
        header = msgpack.unpackb(frames[0])
        header[data.draw(st.sampled_from(sorted(header)))] = data.draw(any_value)
        frames[0] = msgpack.packb(header)
    try:
        back = unpack(frames, PLENTY)
    except WireError:
        return
    assert isinstance(back, Message)
    assert sum(array.nbytes for array in back.arrays.values()) == sum(map(len, frames[1:]))


def header(**changes):
    fields = {"v": VERSION, "type": "x", "from": 0, "round": 0, "seq": 0, "body": {}, "arrays": []}
    return msgpack.packb({**fields, **changes})


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([], "1 to"),
        ([header()] + [b""] * (MAX_ARRAYS + 1), "1 to"),
        ([b""], "not msgpack"),
        ([b"\x91" * 5000], "not msgpack"),
        ([b"\xc1"], "not msgpack"),
        ([header() + b"\x00"], "not msgpack"),
        ([msgpack.packb([1, 2])], "not a map"),
        ([header(v=VERSION + 1)], f"speaks version {VERSION}"),
        ([header(v=True)], f"speaks version {VERSION}"),
        ([header(more=1)], "expected keys"),
        ([header(type="a" * 65)], "short name"),
        ([header(type=b"x")], "not msgpack"),
        ([header(type="\n")], "short name"),
        ([header(round=True)], "'round'"),
        ([header(seq=-1)], "'seq'"),
        ([header(**{"from": 1.0})], "'from'"),
        ([header(body=[])], "body"),
        ([header(body={"a": [1]})], "not a plain value"),
        ([header(body={"a": msgpack.ExtType(5, b"")})], "not a plain value"),
        ([header(body={"a": b"raw"})], "not msgpack"),
        ([header(body={str(n): n for n in range(33)})], "not msgpack"),
        ([header(arrays=[["a", "object", [1]]]), b"12345678"], "dtype"),
        ([header(arrays=[["a", "int8", [2]]])], "1 arrays are declared, but 0 came"),
        ([header(arrays=[["a", "int8", [2]]]), b"123"], "declared with 2 bytes, but has 3"),
        ([header(arrays=[["a", "float32", [2**29, 2**29]]]), b""], "declared with"),
        ([header(arrays=[["a", "float32", [2**40, 2**40]]]), b""], "too large"),
        ([header(arrays=[["a", "float32", [0, 2**40, 2**40]]]), b""], "too large"),
        ([header(arrays=[["a", "float32", [2**59, 2]]]), b""], "too large"),
        ([header(arrays=[["a", "int8", [-1]]]), b""], "whole numbers"),
        ([header(arrays=[["a", "int8", [0] * 9]]), b""], "dimensions"),
        ([header(arrays=[["a", "int8", [0]], ["a", "int8", [0]]]), b"", b""], "comes twice"),
        ([b"\x00" * (MAX_HEADER_BYTES + 1)], "header has"),
    ],
)
def test_what_is_refused_and_why(frames, why):
    with pytest.raises(WireError, match=why):
        unpack(frames, PLENTY)


def test_size_cap_comes_first():
    frames = wire(pack(Message("x", 0, 0, 0, arrays={"a": np.zeros(1000, np.int8)})))
    whole = sum(map(len, frames))
    assert unpack(frames, whole).arrays["a"].size == 1000
    with pytest.raises(WireError, match=f"has {whole} bytes, more than {whole - 1}"):
        unpack(frames, whole - 1)


def test_our_own_mistakes_are_noticed_when_packing():
    with pytest.raises(WireError, match="float16"):
        pack(Message("x", 0, 0, 0, arrays={"a": np.zeros(1, np.float16)}))
    with pytest.raises(WireError, match="plain value"):
        pack(Message("x", 0, 0, 0, body={"a": (1, 2)}))
    with pytest.raises(WireError, match="more than"):
        pack(Message("x", 0, 0, 0, body={"a": "b" * MAX_HEADER_BYTES}))


def test_readers_check_what_they_return():
    message = Message(
        "x",
        0,
        0,
        0,
        {"n": 3, "yes": True, "f": 0.5, "s": "abc", "inf": float("inf")},
        {"a": np.zeros(3, np.int8)},
    )
    assert message.whole("n", 0, 3) == 3
    assert message.number("n") == 3.0
    assert message.number("inf") == float("inf")
    assert message.text("s", 3) == "abc"
    assert message.flag("yes") is True
    assert message.array("a", "int8", 3).shape == (3,)
    for bad in (
        lambda: message.whole("n", 0, 2),
        lambda: message.whole("yes", 0, 2),
        lambda: message.whole("f", 0, 2),
        lambda: message.whole("none", 0, 2),
        lambda: message.number("yes"),
        lambda: message.amount("inf"),
        lambda: message.text("s", 2),
        lambda: message.flag("n"),
        lambda: message.array("a", "uint8", 3),
        lambda: message.array("a", "int8", 4),
        lambda: message.array("b", "int8", 3),
    ):
        with pytest.raises(WireError):
            bad()


@given(st.lists(st.integers(0, 2**62), max_size=8), st.sampled_from(list(DTYPES)), st.binary(max_size=16))
def test_no_shape_breaks_it(shape, dtype, frame):
    try:
        array = unpack([header(arrays=[["a", dtype, shape]]), frame], PLENTY).arrays["a"]
    except WireError:
        return
    assert array.shape == tuple(shape)
