# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oac_blocks.dsp import Numerology, fsk_mv, ofdm

NUM = Numerology()


def decide(soft):
    """Votes of a noiseless single client: an abstention leaves no energy on either tone."""
    return np.where(np.abs(soft) < 1e-3, 0, np.sign(soft)).astype(np.int8)


@st.composite
def vote_vectors(draw):
    """Every k from 1 to 5,000; patterns drawn entry by entry where short, from a seeded generator where long."""
    k = draw(st.one_of(st.integers(1, 5000), st.sampled_from([1, 95, 96, 97, 191, 192, 193, 4999, 5000])))
    if k <= 64:
        return draw(hnp.arrays(np.int8, k, elements=st.integers(-1, 1)))
    weights = draw(st.sampled_from([(1, 1, 1), (1, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 50, 1)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.choice(np.array([-1, 0, 1], np.int8), k, p=np.array(weights) / sum(weights))


@given(votes=vote_vectors(), repeats=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
@example(votes=np.ones(5000, np.int8), repeats=8, seed=0)
@example(votes=np.zeros(1, np.int8), repeats=1, seed=0)
@settings(max_examples=300, deadline=None)
def test_what_one_client_sends_is_what_the_server_reads(votes, repeats, seed):
    grid = fsk_mv.encode(votes, NUM, np.random.default_rng(seed), repeats=repeats)
    assert grid.dtype == np.complex64
    assert grid.shape == (-(-len(votes) * repeats // 96), 192)
    soft = fsk_mv.detect(ofdm.demodulate(ofdm.modulate(grid, NUM), NUM), len(votes), NUM, repeats=repeats)
    assert soft.dtype == np.float32
    np.testing.assert_array_equal(decide(soft), votes)
    np.testing.assert_allclose(soft, repeats * votes, atol=1e-4)


@pytest.mark.parametrize("repeats", range(1, 9))
def test_every_vote_has_its_own_pairs(repeats):
    """No pair is used twice and none lies outside of the burst."""
    used = np.zeros(5000 * 8 + 96, np.int64)
    # All short ones, where the layout is irregular; every seventh of the rest, starting elsewhere for each `repeats`.
    for k in [*range(1, 800), *range(800 + repeats, 5001, 7)]:
        positions = fsk_mv.pair_positions.__wrapped__(k, NUM, repeats)
        assert positions.shape == (repeats, k)
        assert positions.min() >= 0
        assert positions.max() < 96 * fsk_mv.symbols_needed(k, NUM, repeats)
        used[:] = 0
        np.add.at(used, positions.ravel(), 1)
        assert used.max() == 1


@pytest.mark.parametrize("repeats", range(2, 9))
def test_copies_are_far_apart_in_frequency_and_time(repeats):
    """R copies cannot all be more than 96/R pairs apart on a circle of 96; they come to three quarters of that."""
    rng = np.random.default_rng(repeats)
    awkward = np.arange(-50, 51, 4) + 96 * 96 // repeats  # copies 96 symbols apart: whole turns bring them together
    for k in [1, 2, 95, 96, 97, 192, 21880, *awkward, *rng.integers(1, 6000, 100)]:
        symbol, pair = np.divmod(fsk_mv.pair_positions.__wrapped__(int(k), NUM, repeats), 96)
        for lag in range(1, repeats):
            distance = np.abs(pair[lag:] - pair[:-lag])
            assert np.minimum(distance, 96 - distance).min() >= 0.75 * 96 // repeats
            assert (symbol[lag:] - symbol[:-lag]).min() >= k * lag // 96 - 1


def test_a_batch_of_clients_is_the_clients_one_by_one():
    rng = np.random.default_rng(5)
    votes = rng.integers(-1, 2, (3, 1000)).astype(np.int8)
    for repeats in (1, 3):
        grid = fsk_mv.encode(votes, NUM, rng, repeats)
        soft = fsk_mv.detect(grid, 1000, NUM, repeats)
        for n in range(3):
            np.testing.assert_array_equal(soft[n], fsk_mv.detect(grid[n], 1000, NUM, repeats))
            np.testing.assert_array_equal(decide(soft[n]), votes[n])


def test_each_vote_is_a_qpsk_symbol_of_unit_energy_on_one_tone():
    grid = fsk_mv.encode(np.array([1, -1, 0], np.int8), NUM, np.random.default_rng(6))
    flat = grid.ravel()
    assert np.abs(flat[0]) == pytest.approx(1)
    assert np.abs(flat[3]) == pytest.approx(1)
    np.testing.assert_array_equal(np.delete(flat, [0, 3]), 0)
    many = fsk_mv.encode(np.ones(96000, np.int8), NUM, np.random.default_rng(7)).ravel()[::2]
    counts = [np.sum(np.abs(many - s) < 1e-6) for s in np.exp(1j * np.pi * (0.25 + 0.5 * np.arange(4)))]
    assert sum(counts) == 96000
    # Four equally likely phases: each count has a standard deviation of sqrt(96000 * 3/16) = 134.
    assert max(abs(c - 24000) for c in counts) < 5 * 134


def test_padding_is_never_read_back_as_a_vote():
    """Noise on the padding alone must not show in any soft vote."""
    k, rng = 100, np.random.default_rng(8)
    grid = np.zeros((2, 192), np.complex64)
    grid.ravel()[2 * k :] = rng.standard_normal(384 - 2 * k)
    soft = fsk_mv.detect(grid, k, NUM)
    assert soft.shape == (k,)
    np.testing.assert_array_equal(soft, 0)


def test_quantise_takes_signs_abstains_and_flips_a_fair_coin_for_zero():
    rng = np.random.default_rng(9)
    np.testing.assert_array_equal(fsk_mv.quantise(np.float32([-2, -0.1, 0.1, 3]), rng), [-1, -1, 1, 1])
    np.testing.assert_array_equal(fsk_mv.quantise(np.float32([-2, -0.1, 0.1, 0, 3]), rng, 0.5), [-1, 0, 0, 0, 1])
    coins = fsk_mv.quantise(np.zeros(40000, np.float32), rng)
    assert set(np.unique(coins)) == {-1, 1}
    assert abs(coins.mean()) < 5 / np.sqrt(40000)


def test_same_seed_same_burst():
    votes = np.random.default_rng(10).integers(-1, 2, 500).astype(np.int8)
    a, b = (fsk_mv.encode(votes, NUM, np.random.default_rng(11)) for _ in range(2))
    np.testing.assert_array_equal(a, b)
