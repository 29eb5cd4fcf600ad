# SPDX-License-Identifier: GPL-3.0-or-later
"""The air that is a GNU Radio flowgraph in a process of its own."""

import gc
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate
from fl_app.air.gnuradio import GnuradioAir
from tests.blocks.flowgraphs import until


def settings(**changes):
    return AirSettings(**{"name": "gnuradio", "mode": "onebit", "snr_db": 10.0, "profile": "eva", **changes})


def fair_votes(rng, clients, k):
    return rng.choice(np.array([-1, 1], np.int8), (clients, k))


@pytest.fixture
def air():
    made = GnuradioAir(settings(), 2, seed=3)
    yield made
    made.close()


def test_votes_come_through_as_the_closed_form_says(air):
    """Rounds of any length, longer than a burst as well; the scatter between rounds gives the standard error."""
    rng = np.random.default_rng(1)
    rates, expected, snrs_db = [], [], []
    for t, k in enumerate([50_000, *[4000] * 24]):
        votes = fair_votes(rng, 2, k)
        uplink = air.uplink(votes, np.arange(2), t)
        assert uplink.received.shape == (k,)
        assert uplink.received.dtype == np.float32
        errors, compared = vote_error_rate(votes, uplink.received)
        rates.append(errors / compared)
        expected.append(expected_vote_error_rate(votes, 10.0))
        snrs_db.append(uplink.snr_db)
    assert uplink.symbols == -(-4000 // 96) + 4
    assert uplink.air_seconds == pytest.approx(uplink.symbols * 320 / 20e6)
    # Two clients' fading over 24 rounds of some ten echoes each: the mean power is known to 0.3 dB.
    assert 10 * np.log10(np.mean(10 ** (np.array(snrs_db) / 10))) == pytest.approx(10.0, abs=1.2)
    off = np.array(rates[1:]) - np.array(expected[1:])
    assert abs(off.mean()) < 3 * off.std(ddof=1) / np.sqrt(len(off))


def test_who_does_not_take_part_abstains(air):
    """The other client's votes stand alone, so the sign is its own wherever the noise lets it."""
    votes = fair_votes(np.random.default_rng(2), 1, 2000)
    uplink = air.uplink(votes, np.array([1]), 0)
    errors, compared = vote_error_rate(votes, uplink.received)
    assert compared == 2000
    assert errors / compared < 0.3


def test_the_same_seed_gives_the_same_soft_votes():
    votes = fair_votes(np.random.default_rng(3), 2, 1000)
    received = []
    for _ in range(2):
        air = make_air(settings(), 2, 5)
        received.append([air.uplink(votes, np.arange(2), t).received for t in range(2)])
        air.close()
    assert np.array_equal(received[0], received[1])


def test_a_flowgraph_that_is_killed_is_reported(air):
    votes = fair_votes(np.random.default_rng(4), 2, 500)
    air.uplink(votes, np.arange(2), 0)
    os.kill(air.process_id, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="the flowgraph ended"):
        _go_on(air, votes)


def _go_on(air, votes):
    for t in range(1, 4):  # what was under way may still arrive
        air.uplink(votes, np.arange(2), t)


def test_nothing_is_left_behind():
    air = GnuradioAir(settings(), 2, seed=1)
    air.uplink(fair_votes(np.random.default_rng(5), 2, 100), np.arange(2), 0)
    process_id = air.process_id
    del air
    gc.collect()
    until(lambda: not Path(f"/proc/{process_id}").exists(), 10.0)


def test_only_one_bit():
    with pytest.raises(ValueError, match="mode must be 'onebit' for the air 'gnuradio'"):
        make_air(settings(mode="analog"), 2, 1)


def test_a_flowgraph_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="n_clients must be"):
        make_air(settings(), 64, 1)
