# SPDX-License-Identifier: GPL-3.0-or-later
"""The fused multiply-add against exact arithmetic, and against torch's."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fl_app.core.steps.fused import BLOCK, multiply_add
from tests.fl_app.core.fusing_torch import needs_fused_torch

LEAST_EXPONENT = -126  # smallest exponent of a normal float32 number; smaller numbers have fewer bits
FRACTION_BITS = 23
OVERFLOW = Fraction(2) ** 128

any_float = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Pairs of float32 numbers whose product is 1 + x with 0 < |x| < 2^-29: too little for float64 to keep beside a number
# 2^24 times as large. (1 + v)(1 - v) = 1 - v^2, and (1 + v)(1 - v + v^2) = 1 + v^3.
NEARLY_ONE = [(1 + u * 2.0**-23, 1 - u * 2.0**-23) for u in (1, 2, 77, 300)] + [
    (1 + v, 1 - v + v * v) for v in (2.0**-10, 2.0**-11, 2.0**-12)
]


def to_float32(exact):
    """Round a fraction to the nearest float32 number; of two equally near ones, to the even one."""
    if exact == 0:
        return np.float32(0)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, LEAST_EXPONENT) - FRACTION_BITS)
    rounded = round(exact / unit) * unit  # Python rounds halves to even
    return np.float32(rounded) if abs(rounded) < OVERFLOW else np.float32(np.inf if exact > 0 else -np.inf)


def exactly(a, factor, b):
    return to_float32(Fraction(float(a)) + Fraction(float(factor)) * Fraction(float(b)))


def fused(a, factor, b):
    with np.errstate(over="ignore"):
        return multiply_add(np.array([a], np.float32), factor, np.array([b], np.float32))[0]


@given(any_float, any_float, any_float)
@settings(max_examples=300)
@example(1.0, -1.0, 1.0)
@example(0.0, 0.0, 0.0)
@example(2.0**-149, 2.0**-149, 2.0**-149)
@example(float(np.finfo(np.float32).max), 1.0, float(np.finfo(np.float32).max))
def test_any_sum_is_rounded_once(a, factor, b):
    assert fused(a, factor, b) == exactly(a, factor, b)


@given(
    # The number in units of its last place: below 2^23 in the range with fewer bits, where that place is always 2^-149.
    st.tuples(st.integers(2**23, 2**24 - 1), st.integers(-149, 104))
    | st.tuples(st.integers(1, 2**23 - 1), st.just(-149)),
    st.sampled_from(NEARLY_ONE),
    st.sampled_from([-1, 1]),
    st.sampled_from([-1, 1]),
)
@settings(max_examples=300)
@example((2**23 - 1, -149), NEARLY_ONE[0], -1, -1)  # float64 rounds it up to the smallest normal number
@example((2**22 + 1, -149), NEARLY_ONE[3], -1, -1)  # the float64 sum is inexact, and one bit beside the middle
def test_a_sum_just_beside_the_middle_of_two_numbers_is_rounded_once(number, pair, sign, other_sign):
    whole, exponent = number
    a = float(np.ldexp(sign * whole, exponent))
    # The product is nearly half a unit in the last place; each factor has a part of its exponent.
    part = exponent // 2
    factor, b = float(np.ldexp(pair[0], part)), float(np.ldexp(other_sign * pair[1], exponent - 1 - part))
    assert fused(a, factor, b) == exactly(a, factor, b)


@given(st.integers(2**23, 2**24 - 1), st.integers(2**23, 2**24 - 1), st.integers(-60, 39), st.integers(-2, 2))
@settings(max_examples=300)
def test_what_a_cancellation_leaves_is_exact(m, n, exponent, ulps):
    a = -np.float32(float(np.ldexp(m * n, 2 * exponent)))  # the product itself, rounded
    for _ in range(abs(ulps)):
        a = np.nextafter(a, np.float32(np.copysign(np.inf, ulps)))
    factor, b = float(np.ldexp(m, exponent)), float(np.ldexp(n, exponent))
    assert fused(a, factor, b) == exactly(a, factor, b)


def test_halves_are_repaired_in_every_block():
    d = 2 * BLOCK + 5
    a = np.ones(d, np.float32)
    a[::2] += np.float32(2.0**-23)  # halves of even numbers round down, halves of odd ones up
    b = np.full(d, (1 - 2.0**-23) * 2.0**-24, np.float32)
    # 1 + 2^-24 (1 - 2^-46) lies below the middle of two numbers, and is rounded down everywhere.
    np.testing.assert_array_equal(multiply_add(a, 1 + 2.0**-23, b), a)
    twice = (a.astype(np.float64) + np.float64(1 + 2.0**-23) * b.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.flatnonzero(twice != a), np.arange(0, d, 2))


@given(st.floats(1e-6, 100), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_a_vote_s_step_has_the_bits_of_two_roundings(eta, seed):
    # eta times -1, 0 or 1 is exact, so that the sum is the only rounding of both.
    rng = np.random.default_rng(seed)
    w = rng.normal(size=2000).astype(np.float32)
    w[:4] = 0, -0.0, np.float32(eta), -np.float32(eta)
    direction = rng.integers(-1, 2, w.size).astype(np.float32)
    once, twice = multiply_add(w, -eta, direction), w - np.float32(eta) * direction
    np.testing.assert_array_equal(once.view(np.int32), twice.view(np.int32))


@needs_fused_torch
@pytest.mark.parametrize("shape", [(100_003,), (31, 17)])
@pytest.mark.parametrize("factor", [-0.01, 0.9, 1e-12, 3e20])
def test_bits_are_torch_s(shape, factor):
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    theirs = torch.from_numpy(a).add(torch.from_numpy(b), alpha=factor).numpy()
    np.testing.assert_array_equal(multiply_add(a, factor, b).view(np.int32), theirs.view(np.int32))


def test_inputs_stay_as_they_are_and_may_be_strided():
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 3), np.float32).T
    assert multiply_add(a, 2.0, b).tolist() == (a + 2).tolist()
    assert a[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (np.zeros(3), np.zeros(3, np.float32), "a must be a float32 array, got float64"),
        (np.zeros(3, np.float32), np.zeros(1, np.float32), r"b must be of the shape of a, \(3,\), got shape \(1,\)"),
    ],
)
def test_other_arrays_are_refused(a, b, says):
    with pytest.raises(ValueError, match=says):
        multiply_add(a, 1.0, b)
