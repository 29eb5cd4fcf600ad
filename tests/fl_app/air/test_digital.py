# SPDX-License-Identifier: GPL-3.0-or-later
"""The digital yardstick: what it delivers, and what it costs at the Shannon rate."""

import math
import re

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.air import AirSettings, make_air
from fl_app.air.simulation.quantiser import exact_bits, quantise

N, K = 5, 4000


def digital(**changes):
    return AirSettings(name="digital", **changes)


def send(payload, t=0, seed=1, **changes):
    return make_air(digital(**changes), len(payload), seed).uplink(payload, np.arange(len(payload)), t)


def entries(n=N, k=K, seed=0):
    return np.random.default_rng(seed).standard_t(3, (n, k)).astype(np.float32)


def votes(n=N, k=K, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), (n, k))


def expected_symbols(k, bits, rate, active=192, groups=4):
    """Payload symbols of one client, and the sync symbols in front of its groups."""
    payload = math.ceil(k * bits / (active * rate))
    return payload + min(groups, payload)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0, 30.0])
@pytest.mark.parametrize(("mode", "bits"), [("onebit", 1), ("analog", 8), ("energy", 8)])
def test_clients_send_one_after_the_other_at_the_rate_of_rayleigh_fading(snr_db, mode, bits):
    uplink = send(votes() if mode == "onebit" else entries(), mode=mode, snr_db=snr_db)
    x = 10 ** (-snr_db / 10)
    rate = math.exp(x) * scipy.special.exp1(x) / math.log(2)
    assert uplink.symbols == N * expected_symbols(K, bits, rate)
    assert uplink.air_seconds == pytest.approx(uplink.symbols * 320 / 20e6)
    assert uplink.heard.tolist() == list(range(N))
    assert (uplink.snr_db, uplink.pmepr_db) == (None, None)


def test_bits_and_back_off_set_the_price():
    awgn = {"mode": "analog", "fading": "none", "snr_db": 20.0}
    for bits in (2, 12):
        assert send(entries(), bits_per_entry=bits, **awgn).symbols == N * expected_symbols(K, bits, math.log2(101))
    rate = math.log2(1 + 10**1.5)
    assert send(entries(), backoff_db=5.0, **awgn).symbols == N * expected_symbols(K, 8, rate)


def test_prefix_and_bandwidth_are_those_of_the_numerology():
    waveform = {"fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 2, "groups": 2}
    uplink = send(votes(), fading="none", snr_db=20.0, sample_rate_hz=2.5e6, **waveform)
    assert uplink.symbols == N * expected_symbols(K, 1, math.log2(101), active=48, groups=2)
    assert uplink.air_seconds == pytest.approx(uplink.symbols * 80 / 2.5e6)


def test_time_on_the_air_grows_with_the_clients():
    symbols = {n: send(votes(n)).symbols for n in (1, 2, 7)}
    assert symbols[2] == 2 * symbols[1]
    assert symbols[7] == 7 * symbols[1]


def test_only_one_client_transmits_at_a_time():
    uplink = send(votes())
    assert uplink.client_seconds == pytest.approx(uplink.air_seconds / N)


def test_votes_arrive_as_they_are():
    sent = votes()
    assert np.array_equal(send(sent).received, sent.sum(axis=0))


def test_a_tie_is_decided_by_a_coin():
    sent = np.stack([np.ones(K, np.int8), -np.ones(K, np.int8)])
    received = send(sent).received
    assert set(np.unique(received)) == {-0.5, 0.5}
    assert abs(np.count_nonzero(received > 0) - K / 2) < 4 * math.sqrt(K) / 2


def test_a_client_that_abstains_somewhere_pays_two_bits():
    sent = votes(2)
    plain = send(sent).symbols
    sent[1, 7] = 0
    rate = math.exp(0.01) * scipy.special.exp1(0.01) / math.log(2)
    both = [expected_symbols(K, bits, rate) for bits in (1, 2)]
    assert (plain, send(sent).symbols) == (2 * both[0], sum(both))


@pytest.mark.parametrize("mode", ["analog", "energy"])
def test_the_mean_entry_arrives_up_to_the_quantisation(mode):
    sent = entries()
    steps = 2 * np.abs(sent).max(axis=1) / 255
    error = send(sent, mode=mode).received - sent.astype(np.float64).mean(axis=0)
    assert np.abs(error).max() <= steps.mean() * (1 + 1e-6)
    # An entry at the share f of a step has the variance f (1 - f) steps^2, which is 1/6 in the mean over f.
    assert error.std() == pytest.approx(math.sqrt(np.square(steps).sum() / 6) / N, rel=0.05)


@given(st.integers(1, 32), st.integers(0, 2**32 - 1), st.floats(1e-30, 1e30))
@settings(max_examples=60, deadline=None)
def test_quantised_entries_lie_on_the_grid_beside_the_entry(bits, seed, size):
    rng = np.random.default_rng(seed)
    values = (size * rng.standard_normal(50)).astype(np.float32)
    peak, steps = float(np.abs(values).max()), 2**bits - 1
    made = quantise(values, bits, rng).astype(np.float64)
    level = (made / peak + 1) * steps / 2
    # float32 has 24 bits, so a finer grid than that cannot be checked.
    assert np.abs(level - level.round()).max() < 1e-6 * steps + 1e-9
    assert np.abs(made - values).max() <= 2 * peak / steps * (1 + 1e-6) + 1e-6 * peak
    assert np.abs(made).max() <= peak * (1 + 1e-6)


def test_quantisation_has_no_bias_and_the_variance_of_the_closed_form():
    draws = 40_000
    values = np.tile(np.float32([0.1, -0.7, 1.0, 0.3]), draws)
    made = quantise(values, 2, np.random.default_rng(3)).astype(np.float64).reshape(draws, 4)
    step, place = 2 / 3, (np.array([0.1, -0.7, 1.0, 0.3]) + 1) * 1.5
    variance = step**2 * (place % 1) * (1 - place % 1)
    error = np.sqrt(variance / draws)
    assert error.max() < 0.002
    assert np.all(np.abs(made.mean(axis=0) - values[:4]) <= 4 * error + 1e-6)
    assert made.var(axis=0) == pytest.approx(variance, rel=0.05, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "bits"), [([1, -1], 1), ([1, 0], 2), ([0, 0], 1), ([2, 1], 3), ([3, -3], 3), ([4, 0], 4), ([-128, 5], 9)]
)
def test_bits_of_whole_numbers(values, bits):
    assert exact_bits(np.array(values, np.int8)) == bits


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"snr_db": None}, "[air] snr_db must be a number for the air 'digital'"),
        ({"mode": "analog", "noise_std": 0.1}, "[air] noise_std must be left out for the air 'digital'"),
        ({"noise_alpha": 1.5}, "[air] noise_alpha must be 2 for the air 'digital'"),
        ({"repeats": 2}, "[air] repeats must be 1 for the air 'digital'"),
        ({"bits_per_entry": 8}, "[air] bits_per_entry must be left out in onebit mode"),
        ({"mode": "analog", "bits_per_entry": 33}, "[air] bits_per_entry = 33: must be at most 32"),
        ({"backoff_db": -1.0}, "[air] backoff_db = -1.0: must be at least 0"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        digital(**wrong)
