# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench on virtual Plutos in lock-step: votes through the air, radios that are not there or vanish."""

import math
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from oac_blocks.bench.threads.bench import Bench, BenchError, BenchSettings
from oac_blocks.bench.threads.plan import settings_for
from oac_blocks.bench.threads.radios import RadioPlan
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.radio.base import RadioError, StreamConfig
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from oac_blocks.record.files import read, recordings
from oac_blocks.record.metadata import Facts
from oac_blocks.record.recorder import Recorder
from oac_blocks.record.replay import replay
from tests.radio.closed_loop import CONFIG, bench_on_air
from tests.support.radios import assert_as_found

pluto = pytest.importorskip("oac_blocks.radio.pluto")


def votes_of(rng, clients, k):
    return rng.choice(np.array([-1, 1], np.int8), (clients, k))


def test_votes_come_through_in_units_of_a_client_and_rounds_without_votes_have_none():
    """The clients vote on different entries, so that each decision is one client's own and noise alone could turn it.

    18 dB on a subcarrier: a vote is wrong with a probability of exp(-63 / 2) / 2.
    """
    rng = np.random.default_rng(1)
    with bench_on_air(2) as (bench, _):
        kinds, levels = [], []
        for k in (100, 100, 100, 1000, 300, 2):  # any length, each round its own
            votes = votes_of(rng, 2, k)
            votes[0, ::2] = votes[1, 1::2] = 0
            outcome = bench.play(votes)
            kinds.append(outcome.kind)
            if outcome.kind == "acquire":
                assert outcome.soft_votes is None
                continue
            assert outcome.voters == (0, 1)
            assert np.array_equal(np.sign(outcome.soft_votes), votes.sum(axis=0))
            levels += np.abs(outcome.soft_votes).tolist()
        assert kinds == ["acquire", "acquire", "payload", "payload", "payload", "payload"]
        assert np.mean(levels) == pytest.approx(1.0, abs=0.05)
        assert outcome.snr_db == pytest.approx(18, abs=3)
        assert bench.play().soft_votes is None
        with pytest.raises(ValueError, match=r"votes must be int8 of shape \(2, k\)"):
            bench.play(votes_of(rng, 3, 10))
    with pytest.raises(ValueError, match="bench must be open"):
        bench.play()


@pytest.mark.parametrize("name", ["onebit", "energy"])
def test_a_recorded_bench_is_replayed_bit_for_bit(tmp_path, name):
    """Also rounds in which nobody votes."""
    rng, scheme = np.random.default_rng(4), scheme_named(name)
    with (
        Recorder(tmp_path, Facts("virtual", 2.4e9, "a test"), 100.0, waits=True) as recorder,
        bench_on_air(2, settings=BenchSettings(2, scheme=scheme), recorder=recorder) as (bench, _),
    ):
        outcomes = [bench.play(votes_of(rng, 2, k).astype(scheme.dtype)) for k in (100, 100, 100, 1000, 300)]
        outcomes.append(bench.play())
    again = [replay(read(path)) for path in recordings([tmp_path])]
    assert [one.heard.round for one in again] == [outcome.round for outcome in outcomes]
    assert {one.verdict for one in again} == {"equal"}
    assert read(recordings([tmp_path])[0]).layout == bench.settings.layout
    with_votes = [outcome.soft_votes is not None for outcome in outcomes]
    assert with_votes == [False, False, True, True, True, False]
    for one, outcome in zip(again, outcomes, strict=True):
        assert one.heard.kind == outcome.kind
        if outcome.soft_votes is not None:
            np.testing.assert_array_equal(one.soft_votes, outcome.soft_votes)


def test_the_servers_radio_gone_ends_it_with_one_sentence():
    with bench_on_air(1) as (bench, served):
        bench.play()
        served.fault("unplug 0")
        with pytest.raises(BenchError, match=r"the server's radio is gone, and the bench ends: .*127") as caught:
            play_on(bench)
        assert "\n" not in str(caught.value)


def play_on(bench):
    for _ in range(8):
        bench.play()


def test_a_client_that_is_gone_is_absent_and_its_votes_are_missing():
    """It is not found again within this test; that it comes back is tested with the truth, in tests/radio."""
    rng = np.random.default_rng(2)
    with bench_on_air(2) as (bench, served):
        while not bench.play().all_tracking:
            pass
        served.fault("unplug 2")
        outcomes = [bench.play(votes_of(rng, 2, 200)) for _ in range(6)]
        assert outcomes[-1].states == ["tracking", "absent"]
        assert served.uris[2] in outcomes[-1].absent[1]
        heard = [outcome for outcome in outcomes if outcome.soft_votes is not None]
        assert heard[-1].voters == (0,)


def test_noise_that_is_taken_for_a_silent_client_is_not_logged():
    """In a payload round without client 1 the server may still find a peak somewhere: a false alarm."""
    with bench_on_air(2) as (bench, served):
        wait_for(bench, lambda outcome: outcome.all_tracking)
        served.fault("unplug 2")
        outcome = wait_for(bench, lambda outcome: outcome.states[1] == "absent" and outcome.kind == "payload")
    alarm = replace(outcome.arrivals, offset_samples=np.array([outcome.arrivals.offset_samples[0], 61.8]))
    outcome = replace(outcome, arrivals=alarm)
    assert np.isnan(outcome.offset_samples).tolist() == [False, True]
    assert np.isnan(outcome.log_line()[-1]["offset_samples"]).tolist() == [False, True]
    assert outcome.heard == ()  # no votes were given


def test_a_radio_whose_connection_broke_is_left_as_it_was_found_at_first():
    """Without a power cycle it comes back with the bench's own settings, which are not what was found."""
    with VirtualPlutos(spread(2, 1, ppm=20, snr_db=26), lock_step=True) as served:
        radios = RadioPlan(served.uris[0], (served.uris[1],), 2.4e9, 2.5e6, 50.0, -10.0, "lock-step")
        with radios.bench(radios.bench_settings()) as bench:
            wait_for(bench, lambda outcome: outcome.all_tracking)
            served._hang_up(1)
            # It may be back before a round has seen it absent; but it has lost its streams, and opened new ones.
            wait_for(bench, lambda outcome: bench.nodes[0].gaps >= 2 and outcome.all_tracking)
        assert_as_found(served)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 10])
def test_on_the_wall_clock_a_client_that_was_unplugged_is_back(seconds):
    plan = partial(RadioPlan, frequency_hz=2.4e9, sample_rate_hz=0.6e6, rx_gain_db=50.0, tx_gain_db=-10.0)
    with VirtualPlutos(spread(3, 1, ppm=20, snr_db=26)) as served:
        radios = plan(served.uris[0], tuple(served.uris[1:]))
        with radios.bench(radios.bench_settings()) as bench:
            wait_for(bench, lambda outcome: outcome.all_tracking)
            served.fault(f"unplug 2 {seconds}")
            lost = bench.nodes[1].gaps + 2  # once gone, and once back
            back = wait_for(
                bench,
                lambda outcome: bench.nodes[1].gaps >= lost and outcome.all_tracking and outcome.kind == "payload",
            )
            assert back.absent == ("", "")


def wait_for(bench, happened):
    deadline = time.monotonic() + 200
    while not happened(outcome := bench.play()):
        assert time.monotonic() < deadline, outcome.states
    return outcome


def test_a_radio_that_is_not_there_is_named_and_the_others_are_let_go():
    with VirtualPlutos(spread(1, 1), lock_step=True) as served:
        openers = [partial(pluto.PlutoRadio, uri, CONFIG) for uri in (served.uris[0], "ip:127.0.0.1:1")]
        with pytest.raises(RadioError, match=r"no Pluto at ip:127\.0\.0\.1:1"):
            Bench(openers[0], openers[1:], BenchSettings(1)).__enter__()
        assert served.air.context(0).settings.sample_rate_hz == 30_720_000  # as it was found


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"clock": "sundial"}, "clock must be one of wall, lock-step"),
        ({"answer_samples": 16_384}, "answer_samples must be more than the 16384 sent ahead"),
        ({"stream": StreamConfig(128)}, "block_samples must be at least 280"),
        ({"amplitude": 0.0}, "amplitude"),
        ({"votes": 0}, "votes"),
        ({"clients": 0}, "clients"),
    ],
)
def test_wrong_settings_are_named(wrong, says):
    with pytest.raises(ValueError, match=says):
        BenchSettings(**wrong)


@pytest.mark.parametrize(("rate", "block"), [(0.6e6, 8192), (1e6, 16_384), (2.5e6, 32_768)])
def test_on_the_wall_clock_blocks_last_some_fifteen_milliseconds(rate, block):
    settings = settings_for(2, Numerology(sample_rate_hz=rate), "wall", 2.4e9)
    assert settings.stream.block_samples == block
    # A client may have to answer earlier by all that the kernel holds, and must still have time to find the trigger.
    assert settings.turnaround_samples >= (1 + settings.stream.kernel_buffers) * block
    # Either crystal may be off by 20 ppm; not both the other way at once, which none of the figures ask for.
    assert settings.max_cfo_rad >= 2 * math.pi * 20e-6 * 2.4e9 / rate
