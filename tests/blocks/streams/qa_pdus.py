# SPDX-License-Identifier: GPL-3.0-or-later
"""PDUs survive the way through PMT, and what is no PDU is told, not raised."""

import numpy as np
import pmt
import pytest

from oac_blocks.blocks.support import pdus

RNG = np.random.default_rng(1)
ARRAYS = [
    RNG.integers(-1, 2, 21_880).astype(np.int8),
    RNG.standard_normal(1000).astype(np.float32),
    (RNG.standard_normal(1000) + 1j * RNG.standard_normal(1000)).astype(np.complex64),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: str(a.dtype))
def test_data_and_metadata_come_back_as_they_were(array):
    pdu = pdus.read(pdus.make(array, {"round": 3, "client": "a"}), array.dtype)
    assert isinstance(pdu, pdus.Pdu)
    assert pdu.data.dtype == array.dtype
    np.testing.assert_array_equal(pdu.data, array)
    assert {name: pmt.to_python(value) for name, value in pdu.metadata.items()} == {"round": 3, "client": "a"}


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: str(a.dtype))
def test_vector_is_the_one_that_gnuradio_makes(array):
    make = {"int8": pmt.init_u8vector, "float32": pmt.init_f32vector, "complex64": pmt.init_c32vector}[str(array.dtype)]
    values = array.view(np.uint8) if array.dtype == np.int8 else array
    assert pmt.equal(pdus.to_vector(array), make(len(array), values.tolist()))


def test_votes_are_read_from_an_s8vector_too():
    pdu = pdus.read(pmt.cons(pmt.make_dict(), pmt.init_s8vector(3, [-1, 0, 1])), np.int8)
    assert isinstance(pdu, pdus.Pdu)
    assert pdu.data.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (pmt.PMT_NIL, "pair"),
        (pmt.intern("hello"), "hello"),
        (pmt.cons(pmt.from_long(1), pmt.init_u8vector(1, [1])), "dictionary"),
        (pmt.cons(pmt.PMT_NIL, pmt.init_f32vector(2, [1.0, 2.0])), "u8vector or s8vector"),
        (pmt.cons(pmt.PMT_NIL, pmt.init_u8vector(0, [])), "empty"),
        (pmt.cons(pmt.PMT_NIL, pmt.PMT_NIL), "u8vector"),
        (pmt.cons(pmt.dict_add(pmt.make_dict(), pmt.from_long(1), pmt.PMT_T), pmt.init_u8vector(1, [1])), "symbols"),
    ],
    ids=["nil", "symbol", "no dictionary", "floats", "empty", "no vector", "name is a number"],
)
def test_bad_pdu_gives_a_text(message, text):
    error = pdus.read(message, np.int8)
    assert isinstance(error, str)
    assert text in error


def test_other_arrays_are_refused():
    with pytest.raises(ValueError, match="int8, float32 or complex64, got float64"):
        pdus.make(np.zeros(3))
