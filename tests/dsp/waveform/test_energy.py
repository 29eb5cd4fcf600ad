# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology, bounds, energy, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import gains
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.dsp.waveform.schemes.energies import PEAK_ENERGY, entry_order

NUM = Numerology()


@given(
    k=st.one_of(st.integers(1, 5000), st.sampled_from([1, 95, 96, 97, 4999, 5000])),
    repeats=st.integers(1, 5),
    scale=st.floats(1e-6, 1e6),
    seed=st.integers(0, 2**32 - 1),
)
@example(k=5000, repeats=5, scale=1.0, seed=0)
@settings(max_examples=300, deadline=None)
def test_what_one_client_sends_is_what_the_server_reads(k, repeats, scale, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_t(3, k).astype(np.float32)
    values[rng.random(k) < 0.1] = 0
    grid = energy.encode(values, NUM, rng, scale, repeats)
    assert grid.dtype == np.complex64
    assert grid.shape == (-(-k * repeats // 96), 192)
    received = energy.detect(ofdm.demodulate(ofdm.modulate(grid, NUM), NUM), k, NUM, scale, repeats)
    assert received.dtype == np.float32
    # Subcarriers of a symbol share the rounding errors of its largest one.
    np.testing.assert_allclose(received, values, rtol=1e-4, atol=1e-5 * np.abs(values).max())


def test_every_number_of_entries_is_read_as_it_was_sent():
    rng = np.random.default_rng(1)
    values = rng.standard_normal(5000).astype(np.float32)
    for k in range(1, 5001):
        received = energy.detect(energy.encode(values[:k], NUM, rng, 1.0), k, NUM, 1.0)
        assert np.allclose(received, values[:k], rtol=1e-5, atol=1e-6), k


@pytest.mark.parametrize("repeats", [1, 3])
def test_an_entry_has_its_energy_on_the_tone_of_its_sign_with_one_of_four_phases(repeats):
    values = np.float32([4, -0.25, 0, 9, -1])
    grid = energy.encode(values, NUM, np.random.default_rng(1), 2.0, repeats)
    pairs = grid.reshape(-1, 2)[fsk_mv.pair_positions(5, NUM, repeats)]
    expected = np.sqrt(2 * np.stack((np.maximum(values, 0), np.maximum(-values, 0)), axis=-1))
    np.testing.assert_allclose(np.abs(pairs), np.broadcast_to(expected, pairs.shape), rtol=1e-6)
    used = pairs[np.abs(pairs) > 0]
    np.testing.assert_allclose((used / np.abs(used)) ** 4, -1, atol=1e-5)
    assert np.count_nonzero(grid) == 4 * repeats


def test_phases_are_even_and_those_of_copies_independent():
    grid = energy.encode(np.ones(40_000, np.float32), NUM, np.random.default_rng(1), 1.0, 2)
    sent = grid.reshape(-1, 2)[fsk_mv.pair_positions(40_000, NUM, 2), 0]
    assert abs(sent.mean()) < 4 / np.sqrt(80_000)
    assert abs(np.mean(sent[0] * sent[1].conj())) < 4 / np.sqrt(40_000)


def test_votes_are_the_entries_of_one():
    votes = np.random.default_rng(1).integers(-1, 2, 1000).astype(np.int8)
    ours = energy.encode(votes.astype(np.float32), NUM, None, 1.0)
    np.testing.assert_allclose(ours, fsk_mv.encode(votes, NUM, None), atol=1e-6)


def test_clients_of_one_array_are_encoded_as_alone():
    values = np.random.default_rng(1).standard_normal((3, 200)).astype(np.float32)
    together = energy.encode(values, NUM, None, 0.5, 2)
    for row, grid in zip(values, together, strict=True):
        np.testing.assert_array_equal(energy.encode(row, NUM, None, 0.5, 2), grid)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: energy.encode(np.ones(3, np.float32), NUM, None, 0.0), "scale"),
        (lambda: energy.encode(np.float32([np.nan]), NUM, None, 1.0), "values"),
        (lambda: energy.encode(np.zeros(0, np.float32), NUM, None, 1.0), "values"),
        (lambda: energy.encode(np.ones(3, np.float32), NUM, None, 1.0, 0), "repeats"),
        (lambda: energy.detect(np.zeros((1, 192), np.complex64), 97, NUM, 1.0), "grid"),
        (lambda: energy.detect(np.zeros((1, 192), np.complex64), 3, NUM, -1.0), "scale"),
        (lambda: bounds.energy_variance(-1.0, 0.0, 0.0), "sum_plus"),
        (lambda: bounds.energy_variance(1.0, 0.0, np.nan), "noise"),
        (lambda: bounds.energy_variance(1.0, 0.0, 0.0, 0), "repeats"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def receive(values, powers, noise, repeats, trials, rng, *, fading="rayleigh", k_db=10.0, shared=False):
    """Return the detected sums (trials,) of one entry per client, over independent channels.

    ``shared`` gives all copies of an entry one gain; otherwise each subcarrier has its own.
    """
    total = complex_gaussian(trials * repeats * 2, noise, rng).reshape(trials, repeats, 2)
    for value, power in zip(values, powers, strict=True):
        sent = energy.encode(np.full(repeats * trials, value, np.float32), NUM, rng, 1.0)
        sent = sent.reshape(-1, 2)[: repeats * trials].reshape(trials, repeats, 2)
        h = gains((trials, 1 if shared else repeats, 1), fading, rng, k_db) * np.sqrt(power)
        total = total + h * sent
    # The copies of an entry are neighbours here, each in a burst of its own.
    received = energy.detect(_grid(total.reshape(-1, 2)), trials * repeats, NUM, 1.0)
    return received.reshape(trials, repeats).mean(axis=1, dtype=np.float64)


def _grid(pairs):
    padded = np.zeros((-(-len(pairs) // 96) * 96, 2), np.complex64)
    padded[: len(pairs)] = pairs
    return padded.reshape(-1, 192)


# Entries of the clients (0 abstains), powers of their channels, SNR, copies.
POINTS = [
    ([1.0], [1.0], 20, 1),
    ([1.0, -1.0], [1.0, 1.0], 20, 1),
    ([0.5, 2.0], [1.0, 1.0], 0, 1),
    ([0.5, -2.0, 0.0], [1.0, 1.0, 1.0], 10, 2),
    ([0.1] * 10, [1.0] * 10, 20, 1),
    ([1.0, -0.2] * 5, [1.0] * 10, 20, 4),
    ([1.0, 0.0] * 5, [1.0] * 10, 3, 1),
    ([3.0, -1.0, -1.0], [0.5, 1.0, 2.0], 10, 1),
    ([3.0, -1.0, -1.0], [0.1, 1.0, 4.0], 10, 4),
    ([0.02] * 50, [1.0] * 50, 20, 1),
    ([0.3, -0.1] * 25, [1.0, 0.25] * 25, -5, 2),
    ([0.0, 0.0], [1.0, 1.0], 0, 1),
]


def within(estimates, mean, variance, sigmas=3.0):
    """Return how far mean and variance of the estimates are from these, in standard errors."""
    n = len(estimates)
    deviations = estimates - mean
    mean_error = np.sqrt(variance / n)
    variance_error = np.std(deviations**2) / np.sqrt(n)
    assert abs(deviations.mean()) < sigmas * mean_error
    assert abs(np.mean(deviations**2) - variance) < sigmas * variance_error
    # The standard error of the variance comes from the same data: it must not grow with a fault.
    assert variance_error < 0.1 * variance


@pytest.mark.parametrize(("values", "powers", "snr_db", "repeats"), POINTS)
@pytest.mark.parametrize("shared", [False, True])
def test_mean_and_variance_are_the_closed_forms(values, powers, snr_db, repeats, shared):
    values, powers = np.array(values), np.array(powers)
    noise, arriving = 10 ** (-snr_db / 10), values * powers
    plus, minus = np.maximum(arriving, 0).sum(), np.maximum(-arriving, 0).sum()
    squares = float(np.sum(arriving**2)) if shared else 0.0
    variance = bounds.energy_variance(plus, minus, noise, repeats, shared_squares=squares)
    rng = np.random.default_rng(len(values) + repeats)
    sums = receive(values, powers, noise, repeats, 20_000, rng, shared=shared)
    within(sums, arriving.sum(), variance)


@pytest.mark.parametrize("k_db", [0.0, 10.0])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("repeats", [1, 3])
def test_in_rician_fading_the_steady_part_takes_variance_away(k_db, shared, repeats):
    values, powers, noise = np.array([1.0, 2.0, -0.5]), np.ones(3), 0.1
    k = 10 ** (k_db / 10)
    steady = (k / (k + 1)) ** 2 * float(np.sum(values**2))
    variance = bounds.energy_variance(
        3.0,
        0.5,
        noise,
        repeats,
        steady_squares=steady,
        shared_squares=float(np.sum(values**2)) - steady if shared else 0,
    )
    rng = np.random.default_rng(repeats)
    sums = receive(values, powers, noise, repeats, 40_000, rng, fading="rician", k_db=k_db, shared=shared)
    within(sums, 2.5, variance)


def test_the_scale_gives_typical_entries_the_energy_of_a_vote_and_one_client_cannot_move_it():
    scheme = scheme_named("energy")
    rms, peak = np.array([0.01, 0.011, 0.012]), np.array([0.05, 0.06, 0.07])
    assert scheme.common_scale(rms, peak) == pytest.approx(1 / 0.011)
    for lie in (1e-30, 1e30):
        lied = scheme.common_scale(np.array([0.01, lie, 0.012]), np.array([0.05, lie, 0.07]))
        assert 1 / 0.012 <= lied <= 1 / 0.01
    # Of two clients, the one with smaller entries decides: a huge report drowns nobody, and a tiny one is cut.
    assert scheme.common_scale(np.array([0.01, 1e30]), np.array([0.05, 1e30])) == pytest.approx(100)
    # Entries of which one is very large: its energy is the limit.
    assert scheme.common_scale(rms, 100 * rms) == pytest.approx(PEAK_ENERGY / (100 * 0.011))


def test_no_entry_has_more_energy_than_the_limit():
    grid = scheme_named("energy").encode(np.float32([1000, -1, 0.5]), NUM, rng=None, scale=2.0)
    energies = np.abs(grid.ravel()[:6].reshape(3, 2)) ** 2
    assert energies[np.argsort(entry_order(3))] == pytest.approx(np.array([[PEAK_ENERGY, 0], [0, 2], [1, 0]]))


@given(k=st.one_of(st.integers(1, 5000), st.integers(20_000, 200_000)))
@settings(max_examples=100, deadline=None)
def test_every_entry_has_a_pair_and_neighbours_are_far_apart(k):
    order = entry_order(k)
    assert np.array_equal(np.sort(order), np.arange(k))
    if k > 50:
        apart = np.abs(np.diff(order))
        assert min(apart.min(), k - apart.max()) > 0.25 * k


def test_strong_layers_do_not_make_strong_symbols():
    """Entries of which every tenth block of 960 is 10 times as large: all symbols have about the same energy."""
    k = 96 * 200
    entries = np.where(np.arange(k) // 960 % 10 == 0, 10.0, 1.0).astype(np.float32)
    grid = scheme_named("energy").encode(entries, NUM, rng=np.random.default_rng(1))
    by_symbol = np.sum(np.abs(grid) ** 2, axis=1)
    assert by_symbol.max() < 1.3 * by_symbol.mean()
    assert by_symbol.min() > 0.7 * by_symbol.mean()


def test_what_radios_get_and_give_back_is_the_mean_entry():
    """Radios know no scale: entries come in units of a vote's energy, and soft votes in the same unit go back."""
    scheme, scale = scheme_named("energy"), 4.0
    entries = np.float32([[0.25, -0.5, 100], [0.75, 0.0, -100]])
    handed = scheme.signed_energies(entries, scale)
    assert handed.dtype == np.float32
    np.testing.assert_array_equal(handed, np.float32([[1, -2, PEAK_ENERGY], [3, 0, -PEAK_ENERGY]]))
    np.testing.assert_allclose(scheme.received_of(handed.sum(axis=0), scale, 2), [0.5, -0.25, 0])
    votes = np.int8([1, 0, -1])
    onebit = scheme_named("onebit")
    assert onebit.signed_energies(votes, scale) is votes
    assert onebit.received_of(np.float32([2, 0]), scale, 2).tolist() == [2, 0]
