# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every simulated air: one seed gives the same bits, whatever was sent before; bad input is named."""

import json

import numpy as np
import pytest

from fl_app.air import SIMULATED_NAMES, AirSettings, make_air

EVERY_AIR = [(name, mode) for name in SIMULATED_NAMES for mode in ("analog", "onebit")]


def payload_for(mode, n, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (n, k), np.int8) if mode == "onebit" else rng.standard_normal((n, k), np.float32)


@pytest.fixture(params=EVERY_AIR, ids="-".join)
def settings(request):
    name, mode = request.param
    return AirSettings(name=name, mode=mode, profile="indoor", clock_walk_ppm=1.0)


def test_same_seed_same_bits_whatever_happened_before(settings):
    payload = payload_for(settings.mode, 3, 700)
    fresh = make_air(settings, 3, seed=4).uplink(payload, np.arange(3), 5)
    used = make_air(settings, 3, seed=4)
    for t in (9, 0, 5):
        used.uplink(payload_for(settings.mode, 2, 50, t), np.array([0, 2]), t)
    again = used.uplink(payload, np.arange(3), 5)
    assert np.array_equal(fresh.received, again.received)
    assert (fresh.snr_db, fresh.pmepr_db, fresh.symbols) == (again.snr_db, again.pmepr_db, again.symbols)


def test_a_resumed_air_goes_on_bit_for_bit(settings):
    first = make_air(settings, 3, seed=4)
    payload = payload_for(settings.mode, 3, 300)
    for t in range(3):
        first.uplink(payload, np.arange(3), t)
    resumed = make_air(settings, 3, seed=4)
    resumed.load_state(json.loads(json.dumps(first.state())))
    expected = first.uplink(payload, np.arange(3), 3).received
    assert np.array_equal(resumed.uplink(payload, np.arange(3), 3).received, expected)


def test_another_seed_or_round_is_another_draw(settings):
    payload = payload_for(settings.mode, 3, 300)
    one = make_air(settings, 3, seed=4)
    received = one.uplink(payload, np.arange(3), 0).received
    others = [
        one.uplink(payload, np.arange(3), 1).received,
        make_air(settings, 3, 5).uplink(payload, np.arange(3), 0).received,
    ]
    for other in others:
        assert np.array_equal(received, other) == ((settings.name, settings.mode) == ("ideal", "analog"))


@pytest.mark.parametrize("k", [1, 2, 95, 96, 97, 385])
def test_any_number_of_entries_passes_and_all_airs_that_add_up_count_the_same_symbols(settings, k):
    uplink = make_air(settings, 4, 0).uplink(payload_for(settings.mode, 2, k), np.array([3, 1]), 2)
    assert uplink.received.shape == (k,)
    assert uplink.received.dtype == np.float32
    assert np.isfinite(uplink.received).all()
    payload_symbols = -(-k // (384 if settings.mode == "analog" else 96))
    if settings.name != "digital":  # test_digital.py
        assert uplink.symbols == payload_symbols + min(4, payload_symbols)
    assert uplink.air_seconds == pytest.approx(uplink.symbols * 16e-6)


def test_the_order_of_the_participants_does_not_matter(settings):
    payload = payload_for(settings.mode, 3, 200)
    air, clients, order = make_air(settings, 5, 0), np.array([4, 0, 2]), [2, 0, 1]
    straight = air.uplink(payload, clients, 1).received
    turned = air.uplink(payload[order], clients[order], 1).received
    assert turned == pytest.approx(straight, abs=1e-5 * float(np.abs(straight).max()))


def test_silence_is_survived(settings):
    zeros = np.zeros((2, 150), np.int8 if settings.mode == "onebit" else np.float32)
    uplink = make_air(settings, 2, 0).uplink(zeros, np.arange(2), 0)
    assert np.isfinite(uplink.received).all()
    if settings.mode == "analog":
        assert np.abs(uplink.received).max() < 1e-20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": np.array([0, 0])}, "clients must be distinct client numbers from 0 to 2"),
        ({"clients": np.array([0, 3])}, "clients must be distinct client numbers from 0 to 2"),
        ({"clients": np.array([-1, 0])}, "clients must be distinct"),
        ({"clients": np.array([0.0, 1.0])}, "clients must be distinct"),
        ({"clients": np.array([], np.int64)}, "clients must be distinct .* at least one"),
        ({"clients": np.array([0])}, r"payload must be of shape \(1 participants"),
        ({"t": -1}, "t must be an integer >= 0, got -1"),
        ({"t": 1.0}, "t must be an integer >= 0"),
        ({"payload": np.zeros((2, 0), np.int8)}, "payload must be of shape"),
        ({"payload": np.zeros(5, np.int8)}, "payload must be of shape"),
        ({"payload": np.zeros((2, 5), np.int64)}, "payload must be"),
    ],
)
def test_bad_input_is_named(settings, change, message):
    arguments = {"payload": payload_for(settings.mode, 2, 5), "clients": np.arange(2), "t": 0, **change}
    with pytest.raises(ValueError, match=message):
        make_air(settings, 3, 0).uplink(**arguments)


@pytest.mark.parametrize("name", SIMULATED_NAMES)
def test_wrong_values_are_named(name):
    analog, onebit = (make_air(AirSettings(name=name, mode=mode), 1, 0) for mode in ("analog", "onebit"))
    with pytest.raises(ValueError, match="payload must be finite in float32, got 1 NaN"):
        analog.uplink(np.array([[1.0, np.nan]], np.float32), np.array([0]), 0)
    with pytest.raises(ValueError, match="payload must be votes -1, 0 or"):
        onebit.uplink(np.array([[2, 1]], np.int8), np.array([0]), 0)


def test_load_state_refuses_what_it_does_not_know(settings):
    with pytest.raises(ValueError, match="state must be empty"):
        make_air(settings, 2, 0).load_state({"clock": 1})


def test_ideal_is_the_mean_and_the_sum():
    g = np.random.default_rng(0).standard_normal((5, 333), np.float32)
    analog = make_air(AirSettings(name="ideal", mode="analog"), 5, 0).uplink(g, np.arange(5), 0)
    assert analog.received == pytest.approx(g.astype(np.float64).mean(axis=0), rel=1e-6, abs=1e-9)
    votes = payload_for("onebit", 5, 333)
    onebit = make_air(AirSettings(name="ideal"), 5, 0).uplink(votes, np.arange(5), 0)
    total = votes.astype(int).sum(axis=0)
    assert np.array_equal(onebit.received[total != 0], total[total != 0])
    assert (analog.snr_db, analog.pmepr_db) == (None, None)


@pytest.mark.parametrize("name", SIMULATED_NAMES)
def test_a_tie_is_decided_by_chance_in_every_air(name):
    k = 20_000
    votes = np.stack([np.ones(k, np.int8), -np.ones(k, np.int8)])
    received = make_air(AirSettings(name=name), 2, 3).uplink(votes, np.arange(2), 1).received
    ups = np.count_nonzero(received > 0)
    assert ups + np.count_nonzero(received < 0) == k
    # In the waveform's flat channel the client with the stronger path decides all ties of a burst.
    if name != "waveform":
        assert abs(ups - k / 2) < 4 * np.sqrt(k) / 2


def test_an_ideal_tie_is_below_every_majority_and_silence_stays_silent():
    votes = np.array([[1, -1, 1, 0, 1, 0], [-1, 1, 1, 0, 0, -1], [0, 0, -1, 0, 0, 0]], np.int8)
    air = make_air(AirSettings(name="ideal"), 3, 0)
    draws = np.stack([air.uplink(votes, np.arange(3), t).received for t in range(64)])
    assert set(np.unique(draws[:, :2])) == {-0.5, 0.5}
    assert np.array_equal(draws[:, 2:], np.tile(np.float32([1, 0, 1, -1]), (64, 1)))
    assert not np.array_equal(draws[:, 0], draws[:, 1])
    assert len(np.unique(draws[:, 0])) == 2


@pytest.mark.parametrize("name", ["fading", "waveform"])
def test_echoes_longer_than_the_prefix_are_warned_of(name, caplog):
    """ETU lasts 5 us: 100 samples at 20 Msps, 12 at 2.5 Msps. The formulas know no echoes."""
    for profile in ("flat", "indoor", "epa", "eva"):
        make_air(AirSettings(name=name, profile=profile), 2, 0)
    make_air(AirSettings(name=name, profile="etu", sample_rate_hz=2.5e6), 2, 0)
    make_air(AirSettings(name=name, profile="etu", fft_size=512, cp_samples=160), 2, 0)
    assert not caplog.text
    make_air(AirSettings(name=name, profile="etu"), 2, 0)
    assert ("profile = 'etu' lasts 100 samples at 20 Msps" in caplog.text) == (name == "waveform")
