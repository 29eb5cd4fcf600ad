# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of strangers: what GNU Radio wrote is read, and nothing else gets as far as GNU Radio's reader."""

import contextlib

import numpy as np
import pmt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.pmt_bytes import MOST_DEPTH, deserialise

numbers = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(pmt.from_long),
    st.integers(-(2**62), 2**62).map(pmt.from_long),
    st.integers(0, 2**64 - 1).map(pmt.from_uint64),
    st.floats(allow_nan=False).map(pmt.from_double),
    st.complex_numbers(allow_nan=False, max_magnitude=1e30).map(lambda z: pmt.from_complex(z.real, z.imag)),
)
vectors = st.one_of(
    st.lists(st.integers(0, 255), max_size=5).map(lambda x: pmt.init_u8vector(len(x), x)),
    st.lists(st.integers(-(2**15), 2**15 - 1), max_size=5).map(lambda x: pmt.init_s16vector(len(x), x)),
    st.lists(st.integers(0, 2**32 - 1), max_size=5).map(lambda x: pmt.init_u32vector(len(x), x)),
    st.lists(st.floats(width=32, allow_nan=False), max_size=5).map(lambda x: pmt.init_f32vector(len(x), x)),
    st.lists(st.floats(allow_nan=False), max_size=5).map(lambda x: pmt.init_f64vector(len(x), x)),
)
words = st.text("abc xyz", max_size=6).map(pmt.intern)
leaves = st.one_of(numbers, vectors, words, st.sampled_from([pmt.PMT_T, pmt.PMT_F, pmt.PMT_NIL]))
pmts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pmt.cons(*pair)),
        st.lists(st.tuples(words, inner), max_size=4).map(lambda entries: _dictionary(entries)),
        st.lists(inner, max_size=4).map(lambda items: _vector(items)),
        st.lists(inner, min_size=1, max_size=4).map(lambda items: pmt.to_tuple(_vector(items))),
    ),
    max_leaves=12,
)


def _dictionary(entries):
    made = pmt.make_dict()
    for key, value in entries:
        made = pmt.dict_add(made, key, value)
    return made


def _vector(items):
    made = pmt.make_vector(len(items), pmt.PMT_NIL)
    for place, item in enumerate(items):
        pmt.vector_set(made, place, item)
    return made


@settings(max_examples=300, deadline=None)
@given(pmts)
def test_what_gnu_radio_writes_is_read(value):
    assert pmt.equal(deserialise(pmt.serialize_str(value)), value)


def test_messages_of_a_round_are_read():
    soft = pdus.make(np.arange(21_880, dtype=np.float32), {"round": 3, "run": 9, "voters": 2, "snr_db": 1.5})
    report = pdus.notice({name: pdus.float64_vector([0.5] * 63) for name in "abcdefghij"} | {"states": "x, " * 63})
    for message in (soft, report):
        assert pmt.equal(deserialise(pmt.serialize_str(message)), message)


@settings(max_examples=500, deadline=None)
@given(pmts, st.data())
def test_what_was_changed_on_the_way_is_read_or_refused(value, data):
    """Cut, lengthened, a byte exchanged: whatever it is, nothing worse than a ValueError happens."""
    whole = bytearray(pmt.serialize_str(value))
    place = data.draw(st.integers(0, len(whole) - 1))
    ways = [whole[:place], whole + b"\x00", whole[:place] + b"\xff" + whole[place + 1 :]]
    changed = bytes(data.draw(st.sampled_from(ways)))
    with contextlib.suppress(ValueError):
        deserialise(changed)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x07" * 20_000,  # nested pairs
        b"\x08\x00\x00\x00\x01" * 5_000,  # nested vectors
        bytes.fromhex("0a00fffffff00100"),  # a vector of 4 GiB
        bytes.fromhex("0802000000") + b"\x06" * 100,  # 2^25 elements
        bytes.fromhex("0200ff61"),  # a long word, cut
        bytes.fromhex("0a7f000000010100"),  # of no known kind
        b"\x55",
        b"\x00\x00",
    ],
)
def test_what_would_end_the_process_is_refused(bad):
    with pytest.raises(ValueError, match="a PMT "):
        deserialise(bad)


def test_as_deep_as_allowed():
    value = pmt.PMT_NIL
    for _ in range(MOST_DEPTH - 1):
        value = pmt.cons(value, pmt.PMT_NIL)
    assert pmt.equal(deserialise(pmt.serialize_str(value)), value)
    with pytest.raises(ValueError, match="deep"):
        deserialise(pmt.serialize_str(pmt.cons(value, pmt.PMT_NIL)))
