# SPDX-License-Identifier: GPL-3.0-or-later
"""What every scheme promises, and the two that are there against the modules of the waveform that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from oac_blocks.dsp import Numerology, analog, fsk_mv
from oac_blocks.dsp.waveform.schemes import Scheme, register_scheme, scheme_named, scheme_names
from oac_blocks.dsp.waveform.schemes.majority_vote import MajorityVote

NUM = Numerology()
FLOATS = st.floats(-1e6, 1e6, width=32)
both = pytest.mark.parametrize("name", ["onebit", "analog"])


def test_names_and_aliases():
    assert scheme_names()[:2] == ("onebit", "analog")
    assert scheme_named("fsk-mv") is scheme_named("onebit")
    with pytest.raises(ValueError, match=r"unknown scheme 'morse': did you mean .* There are onebit, analog"):
        scheme_named("morse")


def test_a_name_is_given_once():
    class Other(MajorityVote):
        pass

    with pytest.raises(ValueError, match="scheme 'onebit' must have a name that is free; there are onebit, analog"):
        register_scheme(Other())


@both
@given(k=st.integers(1, 500), seed=st.integers(0, 2**32 - 1))
def test_a_payload_without_a_channel_comes_back(name, k, seed):
    scheme, rng = scheme_named(name), np.random.default_rng(seed)
    payload = scheme.check(scheme.random_payload(k, rng))
    assert payload.dtype == scheme.dtype
    grid = scheme.encode(payload, NUM, rng=rng, scale=0.7)
    assert grid.shape == (scheme.symbols_needed(k, NUM), NUM.active_subcarriers)
    received = scheme.detect(grid, k, NUM, scale=0.7)
    np.testing.assert_allclose(received, scheme.combine(payload[None]), rtol=1e-5, atol=1e-5)


@both
@given(g=arrays.arrays(np.float32, st.integers(1, 100), elements=FLOATS))
def test_a_client_moves_its_model_as_the_server_does(name, g):
    """From the packed arrays alone, bit for bit, zeros included."""
    scheme = scheme_named(name)
    packed = scheme.pack(g)
    fields = {field.name: field for field in scheme.downlink_fields(len(g))}
    assert set(packed) <= set(fields)
    assert {name for name, field in fields.items() if not field.optional} <= set(packed)
    for name, array in packed.items():
        assert (array.dtype.name, array.size) == (fields[name].dtype, fields[name].size)
    memory = scheme.unpack(packed, len(g))
    assert memory.dtype == scheme.memory_dtype
    np.testing.assert_array_equal(memory, scheme.remember(g))
    direction = scheme.direction(memory)
    assert direction.dtype == np.float32
    np.testing.assert_array_equal(direction, scheme.direction(g))


def test_votes_are_those_of_fsk_mv():
    scheme, votes = scheme_named("onebit"), np.array([[1, -1, 0, 1]], np.int8)
    encoded = scheme.encode(votes, NUM, rng=np.random.default_rng(3), repeats=2)
    np.testing.assert_array_equal(encoded, fsk_mv.encode(votes, NUM, np.random.default_rng(3), 2))
    # The mean over the copies: a soft vote means the same for any number of them.
    np.testing.assert_allclose(scheme.detect(encoded[0], 4, NUM, repeats=2), [1, -1, 0, 1], atol=1e-6)


def test_amplitudes_are_those_of_analog_and_divide_by_clients_and_gain():
    scheme, entries = scheme_named("analog"), np.array([0.5, -2.0, 3.0], np.float32)
    precoding = np.exp(1j * np.arange(NUM.active_subcarriers))
    encoded = scheme.encode(entries, NUM, scale=0.3, precoding=precoding)
    np.testing.assert_array_equal(encoded, analog.encode(entries, NUM, 0.3, precoding))
    grid = analog.encode(entries, NUM, 0.3)
    np.testing.assert_allclose(scheme.detect(4 * grid, 3, NUM, scale=0.3, clients=4, mean_gain=0.5), 2 * entries)


@pytest.mark.parametrize(
    ("name", "payload", "message"),
    [
        ("onebit", np.ones(3, np.float32), "int8 votes"),
        ("onebit", np.array([1, 2], np.int8), "votes -1, 0 or +1"),
        ("analog", np.ones(3, np.int8), "float32 entries"),
        ("analog", np.array([1, np.nan], np.float32), "finite"),
    ],
)
def test_what_is_no_payload_is_refused(name, payload, message):
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        scheme_named(name).check(payload)


@both
@given(k=st.integers(1, 5000), repeats=st.integers(1, 5))
def test_symbols_are_those_of_the_waveforms_own_modules(name, k, repeats):
    expected = fsk_mv.symbols_needed(k, NUM, repeats) if name == "onebit" else analog.symbols_needed(k * repeats, NUM)
    assert scheme_named(name).symbols_needed(k, NUM, repeats) == expected


@both
@pytest.mark.parametrize("wrong", [{"k": 0}, {"repeats": 0}, {"k": 1.5}])
def test_symbols_of_no_entries_are_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        scheme_named(name).symbols_needed(**{"k": 1, "num": NUM, **wrong})


def test_the_base_names_what_is_missing():
    with pytest.raises(TypeError, match="abstract"):
        Scheme()
