# SPDX-License-Identifier: GPL-3.0-or-later
"""The air that is radios: three virtual Plutos on the lock-step clock, libiio and pyadi-iio between them."""

import gc
from contextlib import contextmanager

import numpy as np
import pytest

from fl_app.air import AirSettings, make_air
from fl_app.air.votes import vote_error_rate
from fl_app.config import check, load_settings
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from oac_blocks.bench.threads.bench import BenchSettings
from oac_blocks.dsp.bounds import mv_error_probability
from oac_blocks.radio.virtual.air.air_settings import REFERENCE_RMS_DB, spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.support.polling import until
from tests.support.radios import assert_as_found

pytest.importorskip("oac_blocks.radio.pluto")
from fl_app.air.live.pluto import PlutoError

LETTERS = 26


@contextmanager
def radios(count=3, **air):
    with VirtualPlutos(spread(count, 1, ppm=20, wobble_ppm=1, snr_db=26, **air), lock_step=True) as served:
        yield served


def section(served, **changes):
    """[radios] for these Plutos: TX gain and RX gain make up for the path loss, 40 dB."""
    return {
        "server": served.uris[0],
        "clients": served.uris[1:],
        "frequency_hz": 2.4e9,
        "rx_gain_db": 50.0,
        "tx_gain_db": -10.0,
        "clock": "lock-step",
        **changes,
    }


def made(served, n=2, **changes):
    settings = check({"air": {"name": "pluto"}, "clients": {"n": n}, "radios": section(served, **changes)}, "test")
    return make_air(settings.air, n, 1, settings.radios)


def own_votes(rng, k):
    """Of two clients, each on entries of its own: every decision is one client's, and 18 dB do not turn it."""
    votes = rng.choice(np.array([-1, 1], np.int8), (2, k))
    votes[0, ::2] = votes[1, 1::2] = 0
    return votes


def test_votes_come_through_and_two_runs_are_equal():
    heard = []
    for _ in range(2):
        rng = np.random.default_rng(1)
        with radios() as served:
            air = made(served)
            heard.append([])
            for t, k in enumerate((22_000, 500)):  # the first takes two bursts
                votes = own_votes(rng, k)
                uplink = air.uplink(votes, np.arange(2), t)
                assert np.array_equal(np.sign(uplink.received), votes.sum(axis=0))
                assert uplink.snr_db == pytest.approx(18, abs=2)
                heard[-1].append(uplink.received)
            assert air.alignment.met
            assert air.alignment.offset_max_samples < 0.1
            # 500 votes, 96 in a symbol, and four sync symbols; a symbol has 320 samples at 2.5 Msps.
            assert uplink.symbols == 6 + 4
            assert uplink.air_seconds == pytest.approx(10 * 320 / 2.5e6)
            air.close()
            assert_as_found(served)
    assert all(np.array_equal(a, b) for a, b in zip(*heard, strict=True))


@pytest.mark.early
def test_votes_in_fading_are_wrong_as_often_as_the_closed_form_says():
    """All ways fade, many echoes, another draw every 50 symbols. SNR and fading are the air's own, gains the loop's."""
    snr_db, coherence_samples, rate_hz = 10.0, 16_000, 2.5e6
    fading = {"channel": "etu", "fading": "rayleigh", "coherence_seconds": coherence_samples / rate_hz}
    # A subcarrier of the bench has an amplitude of 0.1.
    air_snr_db = snr_db - 20 * np.log10(BenchSettings().amplitude) + REFERENCE_RMS_DB
    rng = np.random.default_rng(1)
    off, expected = [], []
    with VirtualPlutos(spread(3, 1, ppm=20, snr_db=air_snr_db, **fading), lock_step=True) as served:
        air = made(served, tolerance_samples=16.0)  # the strongest path moves: it is not to be waited for
        for t in range(20):
            votes = rng.integers(-1, 2, (2, 19_200)).astype(np.int8)
            uplink = air.uplink(votes, np.arange(2), t)
            if air.last.voters != (0, 1):
                continue
            errors, compared = vote_error_rate(votes, uplink.received)
            gains_db = np.array([order.gain_db for order in air.last.plan.orders])
            snr = 10 ** ((snr_db + gains_db) / 10)
            # Two that agree, or one alone, are one client with the sum of their powers.
            decided = np.abs(votes[:, votes.sum(axis=0) != 0])
            expected.append(np.mean(mv_error_probability(1, 0, snr @ decided)))
            off.append(errors / compared - expected[-1])
        air.close()
    # Votes of a round share its fading: what they scatter by is seen between rounds.
    sigma = np.std(off, ddof=1) / np.sqrt(len(off))
    print(f"{len(off)} rounds: closed form {np.mean(expected):.4f}, off by {np.mean(off):+.4f} +- {sigma:.4f}")
    assert len(off) > 15
    assert sigma < 0.1 * np.mean(expected)
    assert abs(np.mean(off)) < 3 * sigma


def test_who_does_not_take_part_abstains_and_who_is_unplugged_is_missed():
    rng = np.random.default_rng(2)
    with radios() as served:
        air = made(served)
        votes = rng.choice(np.array([-1, 1], np.int8), (1, 300))
        assert np.array_equal(np.sign(air.uplink(votes, np.array([1]), 0).received), votes[0])
        served.fault("unplug 1")
        for t in range(1, 4):
            both = np.concatenate((-votes, votes))
            received = air.uplink(both, np.arange(2), t).received
        assert np.array_equal(np.sign(received), votes[0])
        assert air.last.states[0] == "absent"
        air.close()


@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_radio_that_is_unplugged_for_a_while_is_counted_and_comes_back(seconds):
    """Seconds of the air, at a rate at which a round lasts some 0.2 s. The other client's votes come through."""
    rng = np.random.default_rng(3)
    with radios() as served:
        air = made(served, sample_rate_hz=0.6e6)
        air.open()
        unheard = []
        for t in range(2000):
            if t == 2:
                began = served.air.now
                served.fault(f"unplug 2 {seconds}")
            votes = own_votes(rng, 200)
            uplink = air.uplink(votes, np.arange(2), t)
            unheard.append(2 - len(uplink.heard))
            assert np.array_equal(np.sign(uplink.received[1::2]), votes[0, 1::2])  # where client 0 votes
            assert vote_error_rate(votes[uplink.heard], uplink.received)[0] == 0
            if t > 2 and unheard[-3:] == [0, 0, 0]:
                break
        assert served.air.now - began > seconds
        air.close()
    # Once gone, and once back.
    assert unheard[:2] == [0, 0]
    assert set(unheard[2:-3]) == {1}


def test_with_two_of_three_radios_unplugged_the_votes_are_those_of_the_third():
    """All that is received is client 0's vote, although the other two would outvote it."""
    votes = np.array([[1], [-1], [-1]], np.int8) * np.ones((3, 300), np.int8)
    with radios(4) as served, made(served, 3) as air:
        assert air.uplink(votes, np.arange(3), 0).heard.tolist() == [0, 1, 2]
        served.fault("unplug 2 1000")
        served.fault("unplug 3 1000")
        for t in range(1, 4):
            uplink = air.uplink(votes, np.arange(3), t)
            assert vote_error_rate(votes[uplink.heard], uplink.received) == (0, 300)
        assert uplink.heard.tolist() == [0]


def test_with_fewer_clients_than_needed_a_burst_is_given_up():
    votes = np.ones((2, 100), np.int8)
    with radios() as served:
        settings = check(
            {
                "air": {"name": "pluto"},
                "clients": {"n": 2},
                "radios": section(served, patience_rounds=8),
                "link": {"min_clients": 2},
            },
            "test",
        )
        with make_air(settings.air, 2, 1, settings.radios, settings.link.min_clients) as air:
            assert air.uplink(votes, np.arange(2), 0).heard.tolist() == [0, 1]
            served.fault("unplug 2 1000")
            with pytest.raises(PlutoError, match=r"in 8 rounds of the radios, and min_clients is 2: .*absent"):
                air.uplink(votes, np.arange(2), 1)
            assert air.uplink(votes[:1], np.arange(1), 2).heard.tolist() == [0]


def test_a_dry_run_that_fails_is_refused_with_the_reason():
    with radios() as served:
        with pytest.raises(PlutoError, match=r"not ready: no Pluto at ip:127\.0\.0\.1:1: Connection refused"):
            made(served, clients=[served.uris[1], "ip:127.0.0.1:1"]).open()
        served.fault("0 fade 2 0 200 1000")
        with pytest.raises(
            PlutoError, match=f"not aligned within 4 rounds: {served.uris[2]} is uncalibrated: answered"
        ):
            made(served, align_rounds=4).open()
        assert_as_found(served)


@pytest.mark.parametrize("channel", ["eva", "etu"])
def test_radios_in_strong_multipath_are_aligned_and_carry_votes(channel):
    """Echoes that change every 0.1 s scatter the offsets by more than half a sample, and votes tolerate that."""
    rng = np.random.default_rng(1)
    with radios(channel=channel, fading="rayleigh", coherence_seconds=0.1) as served:
        air = made(served)
        air.open()
        assert air.alignment.met
        assert air.alignment.rounds < 20
        wrong = compared = 0
        for t in range(4):
            votes = own_votes(rng, 1000)
            received = air.uplink(votes, np.arange(2), t).received
            heard = votes[list(air.last.voters)]
            errors, count = vote_error_rate(heard, received)
            wrong, compared = wrong + errors, compared + count
        air.close()
    # One voter at 18 dB in Rayleigh fading: 1 / (snr + 2) = 0.015 are wrong on the average over many fades.
    assert wrong / compared < 5 * mv_error_probability(1, 0, 10**1.8)


def test_a_tolerance_that_echoes_do_not_allow_is_named():
    with radios(2, channel="eva", fading="rayleigh", coherence_seconds=0.1) as served:
        with pytest.raises(
            PlutoError, match=r"samples off\. \[radios\] tolerance_samples is 0\.01; votes tolerate 5\.25 here"
        ):
            made(served, n=1, tolerance_samples=0.01, align_rounds=8).open()
        assert made(served, n=1).tolerance_samples == 5.25


def test_nothing_is_left_behind_and_nothing_is_opened_too_early():
    with radios(2) as served:
        air = made(served, n=1)
        assert served.air.context(0).settings.sample_rate_hz == 30_720_000
        air.open()
        assert served.air.context(0).settings.sample_rate_hz == 2_500_000
        del air
        gc.collect()
        assert_as_found(served)


def test_only_one_bit_and_only_with_radios():
    with pytest.raises(ValueError, match="mode must be 'onebit' or 'energy' for the air 'pluto'"):
        AirSettings(name="pluto", mode="analog")
    with pytest.raises(ValueError, match=r"radios must be the section \[radios\]"):
        make_air(AirSettings(name="pluto"), 2, 1)


@pytest.mark.early
def test_training_goes_on_while_a_client_is_unplugged_and_comes_back(tmp_path):
    """The small CNN, one-bit, FAIR-k, 25 rounds through echoes; client 1 is gone from round 8 to round 12."""
    rows, voters = [], []
    with radios(channel="indoor") as served:
        tables = [f"radios.{key}={value!r}".replace("'", '"') for key, value in section(served).items()]
        # Small batches and long steps: quick to compute, and no less accurate after so many rounds.
        quick = ["clients.batch_size=20", "server.lr=0.002", "data.test_limit=1000"]
        changes = ["air.name=pluto", "run.rounds=25", "run.eval_every=25", "run.workers=0", *quick, *tables]
        settings = load_settings("quickstart", changes)

        def each(row):
            rows.append(row)
            voters.append([node.tx.buffer is not None for node in served.air.nodes])
            if row.round == 7:
                served.fault("unplug 2")
            if row.round == 12:
                served.fault("plug 2")
                # The bench looks for it on the wall clock, while the air's time stands still between two rounds.
                until(lambda: served.air.nodes[2].tx.buffer is not None, "the client's radio, opened again")

        result = train(settings, RunFolder.create(settings, tmp_path / "run"), each, lambda: False)
    assert len(rows) == 25
    assert [True, True, False] in voters[8:13]
    assert voters[-1] == [True, True, True]
    absent = [row.absent_clients for row in rows]
    assert absent[:8] == [0] * 8
    assert absent[8:13] == [1] * 5
    assert absent[-1] == 0
    assert result["absent_clients"] == sum(absent)
    # Chance is 1 in 26; the simulated airs come to 0.36 in as many rounds.
    assert rows[0].test_accuracy < 3 / LETTERS
    assert result["test_accuracy"] > 0.2
    # What comes out is compared with the votes of the clients that were heard, be it one or two.
    assert all(row.vote_error_rate < 0.1 for row in rows if row.votes_compared)
    assert all(row.votes_compared > 0.3 * row.k for row in rows[:8])


@pytest.mark.early
def test_training_with_energies_is_as_accurate_as_through_the_simulated_waveform(tmp_path):
    """The small CNN, FAIR-k by magnitudes, 25 rounds: the radios' accuracy is within the scatter of seeds."""
    quick = ["clients.batch_size=20", "server.optimizer=adam", "server.lr=0.003", "data.test_limit=1000"]
    common = ["air.scheme=energy", "run.rounds=25", "run.eval_every=25", "run.workers=0", *quick]

    def run(name, *changes):
        settings, rows = load_settings("quickstart", [*common, *changes]), []
        result = train(settings, RunFolder.create(settings, tmp_path / name), rows.append, lambda: False)
        return result["test_accuracy"], rows

    with radios(channel="indoor") as served:
        tables = [f"radios.{key}={value!r}".replace("'", '"') for key, value in section(served).items()]
        accuracy, rows = run("radios", "air.name=pluto", *tables)
    assert len(rows) == 25
    assert [row.absent_clients for row in rows] == [0] * 25
    assert all(row.vote_error_rate is None for row in rows)  # nobody votes
    simulated = [run(f"waveform{seed}", "air.fading=none", f"run.seed={seed}")[0] for seed in (1, 2, 3)]
    print(f"radios {accuracy:.3f}, waveform {simulated}")
    assert accuracy > 5 / LETTERS
    # Three seeds tell their scatter only roughly: it is 0.05 over many.
    scatter = np.clip(np.std(simulated, ddof=1), 0.03, 0.06)
    assert abs(accuracy - np.mean(simulated)) < 3 * scatter
