# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiled way and the way of tensors mark the entries that numpy and torch.topk mark."""

from __future__ import annotations

import tracemalloc

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.core import selection
from fl_app.core.ages import Ages
from fl_app.core.pools import kernels
from fl_app.core.pools.arrays import ArrayPool
from fl_app.core.pools.bits import BitPool
from fl_app.core.pools.draws import draw_bits
from fl_app.core.pools.tensors import TensorPool
from fl_app.core.selection import POLICY_NAMES, FairK, make_policy
from oac_blocks.dsp.compiled import compiled

VALUES = {
    "normal": lambda rng, d: rng.standard_normal(d),
    "tied": lambda rng, d: rng.integers(-2, 3, d),
    "zeros": lambda rng, d: 0 * rng.random(d),
    "signed zeros": lambda rng, d: np.where(rng.random(d) < 0.5, -0.0, 0.0),
    "mostly zero": lambda rng, d: rng.standard_normal(d) * (rng.random(d) < 0.1),
    "infinite": lambda rng, d: np.where(rng.random(d) < 0.3, -np.inf, rng.standard_normal(d)),
    "tiny": lambda rng, d: rng.standard_normal(d) * 1e-42,
    "wide": lambda rng, d: rng.standard_normal(d) * 10.0 ** rng.integers(-30, 30, d),
    "two heaps": lambda rng, d: np.where(np.arange(d) < d // 2, 1, 1 + 1e-6 * rng.random(d)),
}


@st.composite
def situations(draw):
    """g, age and a seed. The largest have more entries than the sample that brackets their threshold."""
    d = draw(st.one_of(st.integers(1, 300), st.sampled_from([64, 128, 70_001, 200_000])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from([np.float32, np.float32, np.float64, np.float16]))
    with np.errstate(over="ignore"):
        g = VALUES[draw(st.sampled_from(sorted(VALUES)))](rng, d).astype(kind)
    oldest = draw(st.sampled_from([0, 1, 40, 1000]))
    age = rng.integers(0, oldest + 1, d).astype(draw(st.sampled_from([np.int32, np.int64, np.uint16])))
    count = draw(st.one_of(st.sampled_from([0, 1, d]), st.integers(0, d)))
    return g, age, count, draw(st.integers(0, 2**32 - 1))


def generators(seed):
    while True:
        yield np.random.default_rng(seed)


def as_set(pool, mask):
    return np.asarray(pool.indices(mask)).tolist()


@settings(max_examples=120, deadline=None)
@given(situations())
def test_every_pool_marks_the_same_entries(situation):
    g, age, count, seed = situation
    rngs = generators(seed)
    reference = ArrayPool(g, age, next(rngs))
    first = reference.largest(count)
    second = reference.oldest(min(count, g.size - count), reference.others(first))
    third = reference.random(count, reference.everything())
    pools = [BitPool(g, age, next(rngs)), BitPool(g, Ages(age), next(rngs))]
    if age.dtype != np.uint16:
        pools.append(TensorPool(torch.from_numpy(g), torch.from_numpy(age), next(rngs), g.size))
    for pool in pools:
        mask = pool.largest(count)
        assert as_set(pool, mask) == np.flatnonzero(first).tolist()
        assert (
            as_set(pool, pool.oldest(min(count, g.size - count), pool.others(mask))) == np.flatnonzero(second).tolist()
        )
        assert as_set(pool, pool.random(count, pool.everything())) == np.flatnonzero(third).tolist()
        assert pool.rng.bit_generator.state == reference.rng.bit_generator.state, "as many numbers were drawn"


@settings(max_examples=60, deadline=None)
@given(situations())
def test_the_largest_are_those_of_torch_topk(situation):
    """Magnitudes of the selected entries, sorted, are torch's: this holds whatever the ties."""
    g, age, count, seed = situation
    pool = BitPool(g, age, np.random.default_rng(seed))
    magnitude = np.abs(g)
    expected = torch.topk(torch.from_numpy(magnitude), count).values.numpy()
    np.testing.assert_array_equal(np.sort(magnitude[pool.indices(pool.largest(count))])[::-1], expected)


@settings(max_examples=40, deadline=None)
@given(situations(), st.sampled_from(POLICY_NAMES), st.booleans())
def test_every_policy_selects_the_same_compiled_or_not(situation, name, counted):
    g, age, count, seed = situation
    k, rngs = max(1, count), generators(seed)
    expected = make_policy(name, g.size, k, rng=next(rngs)).next(g, age)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "COMPILED_FROM", 1)
        policy = make_policy(name, g.size, k, rng=next(rngs))
        selected = policy.pick(g, Ages(age)) if counted else policy.next(g, age)
    np.testing.assert_array_equal(selected, expected)
    assert selected.dtype == np.int64


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_large_model_goes_on_round_by_round_as_a_small_one_would(name, monkeypatch):
    """Some rounds with the server's ages, a skipped one among them, against arrays and the plain way."""
    d = selection.COMPILED_FROM + 37
    k, rng = d // 10, np.random.default_rng(3)
    rngs = generators(8)
    plain, compiled = (make_policy(name, d, k, rng=next(rngs)) for _ in range(2))
    ages, age = Ages.zeros(d), np.zeros(d, np.int32)
    g = rng.standard_normal(d, np.float32)
    for number in range(4):
        selected = compiled.pick(g, ages)
        with monkeypatch.context() as patch:
            patch.setattr(selection, "COMPILED_FROM", d + 1)
            np.testing.assert_array_equal(selected, plain.next(g, age))
        ages.update(selected)
        age = selection.update_age(age, selected)
        if number == 1:
            ages.skip()
            age += 1
        np.testing.assert_array_equal(ages.array(), age)
        g += rng.standard_normal(d, np.float32)


@pytest.mark.parametrize("compiled_from", [1, 10**9])
@pytest.mark.parametrize("name", POLICY_NAMES)
def test_what_cannot_be_ordered_is_named(name, compiled_from, monkeypatch):
    monkeypatch.setattr(selection, "COMPILED_FROM", compiled_from)
    g, age = np.ones(70, np.float32), np.zeros(70, np.int32)
    g[[3, 69]] = np.nan
    with pytest.raises(ValueError, match="2 NaN entries of 70"):
        make_policy(name, 70, 9).next(g, age)
    age[69] = -4
    with pytest.raises(ValueError, match="smallest entry is -4"):
        make_policy(name, 70, 9).next(np.ones(70, np.float32), age)


@pytest.mark.parametrize(
    ("g", "age", "message"),
    [
        (torch.ones(4), torch.zeros(5, dtype=torch.int32), "g must hold 5"),
        (torch.ones(5, dtype=torch.int32), torch.zeros(5, dtype=torch.int32), "g must hold 5"),
        (torch.ones(5), torch.zeros(4, dtype=torch.int32), "age must hold 5"),
        (torch.ones(5), torch.zeros(5), "age must hold 5"),
        (torch.ones(5), torch.full((5,), -1), "not be negative"),
        (torch.full((5,), torch.nan), torch.zeros(5, dtype=torch.int32), "5 NaN"),
        (torch.ones(5), torch.zeros(5, dtype=torch.int32, device="meta"), "one device"),
    ],
)
def test_bad_tensors_are_named(g, age, message):
    with pytest.raises(ValueError, match=message):
        make_policy("fair-k", 5, 2).next(g, age)


def test_tensors_give_the_indices_of_arrays_as_a_tensor():
    rng = np.random.default_rng(1)
    g, age = rng.standard_normal(500, np.float32), rng.integers(0, 9, 500)
    expected = make_policy("fair-k", 500, 50).next(g, age)
    selected = make_policy("fair-k", 500, 50).next(torch.from_numpy(g), torch.from_numpy(age))
    assert isinstance(selected, torch.Tensor)
    assert selected.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937])
@pytest.mark.parametrize(
    ("n", "count"),
    [(2, 1), (10_000, 9999), (10_001, 10_000), (10_001, 500), (10_001, 501), (200_000, 70_000), (3_000_001, 9)],
)
def test_subsets_are_those_of_numpys_choice(n, count, bits, seed):
    ours, theirs = (np.random.Generator(bits(seed)) for _ in range(2))
    drawn = np.empty(count, np.int64)
    kernels.positions(draw_bits(n, count, ours), drawn)
    np.testing.assert_array_equal(drawn, np.sort(theirs.choice(n, count, replace=False, shuffle=False)))
    assert ours.random() == theirs.random(), "the generators are in the same state"


def test_random_bits_that_would_favour_small_numbers_are_drawn_anew():
    """For bounds of about 2^32 / 3 * 2 a third of all draws is refused, so that the drawn numbers run out early."""
    n, count = 2_863_311_531, 4000
    ours, theirs = (np.random.default_rng(5) for _ in range(2))
    ranks = draw_bits(n, count, ours)
    chosen = np.sort(theirs.choice(n, count, replace=False, shuffle=False))
    words = np.flatnonzero(ranks)
    np.testing.assert_array_equal(words, np.unique(chosen // 64))
    assert kernels.count(ranks) == count
    assert ours.random() == theirs.random()


@pytest.mark.parametrize("own", ["next", "_choose"])
def test_a_subclass_with_a_method_of_its_own_is_asked_by_it(own):
    def first_ones(self, g, age):
        assert isinstance(age, np.ndarray)
        return np.arange(self.k) if own == "next" else np.arange(self.d) < self.k

    policy = type("First", (FairK,), {own: first_ones})(1000, 10, np.random.default_rng(0), k_m=4)
    g, ages = np.arange(1000, dtype=np.float32), Ages.zeros(1000)
    assert policy.pick(g, ages).tolist() == list(range(10))
    assert policy.next(g, ages.array()).tolist() == list(range(10))


def test_selection_takes_at_most_two_more_bytes_for_each_entry():
    """All that is allocated on the way, the result included; g and ages are there before. From the second call on:
    the first one loads the compiled code."""
    d = 4 * selection.COMPILED_FROM
    rng = np.random.default_rng(2)
    g, ages = rng.standard_normal(d, np.float32), Ages.zeros(d)
    policy = make_policy("fair-k", d, d // 10, rng=rng)
    most = []
    for _ in range(45):  # until the ages are spread as in the long run
        tracemalloc.start()
        selected = policy.pick(g, ages)
        most.append(tracemalloc.get_traced_memory()[1] / d)
        tracemalloc.stop()
        ages.update(selected)
        g *= rng.random(1, np.float32)
    assert max(most[1:]) < 2


def test_kernels_release_the_lock():
    own = [value for name, value in vars(kernels).items() if hasattr(value, "targetoptions") and name != "compiled"]
    assert len(own) > 10
    assert all(kernel.targetoptions["nogil"] for kernel in own)


def test_kernels_compile_where_nothing_can_be_kept():
    """A function without a file has no folder for its code, like one of a read-only package and a user without home."""
    names: dict = {}
    exec("def add_one(x):\n    return x + 1", names)
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(names["add_one"])
    assert compiled(names["add_one"])(1) == 2
