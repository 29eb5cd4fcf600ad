# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual radios against what can be said of them on paper."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.clocks import ClientClocks
from calibration.faults import Fault
from calibration.simulation import loop_for, play, simulate
from calibration.virtual import VirtualRadios, VirtualSettings
from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.loop.closed_loop import Order, Plan

LAYOUT = RoundLayout(clients=3, groups=2, answer_samples=400_000)
QUIET = VirtualSettings(LAYOUT, walk_ppm=0.0, snr_db=40.0, own_trigger_snr_db=60.0)


def free_run(radios, round_=0, kind="payload", corrections=None):
    n = radios.settings.layout.clients
    corrections = np.zeros(n) if corrections is None else corrections
    orders = tuple(Order(i, round_, 0, kind, float(corrections[i]), 0.0) for i in range(n))
    return radios.play(Plan(round_, kind, orders))


@given(ppm=st.lists(st.floats(-200, 200), min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_a_clock_reaches_its_counts_when_it_says(ppm, seed):
    crystals = [CrystalSettings(one, 1.0, 1.0) for one in ppm]
    clocks = ClientClocks(crystals, 20e6, np.random.SeedSequence(seed))
    time = 1e6 + np.random.default_rng(seed).uniform(0, 800_000, len(ppm))
    np.testing.assert_allclose(clocks.time_of(clocks.count_at(time)), time, atol=1e-6)


def test_a_clock_without_a_walk_keeps_its_rate():
    clocks = ClientClocks([CrystalSettings(-20.0), CrystalSettings(5.0)], 20e6, np.random.SeedSequence(1))
    np.testing.assert_allclose(clocks.count_at(np.full(2, 1e6)), [1e6 - 20, 1e6 + 5])
    np.testing.assert_allclose(clocks.rates_ppm(1e6), [-20, 5])
    clocks.step(0, 3.0, 2e6)
    np.testing.assert_allclose(clocks.count_at(np.full(2, 3e6)), [3e6 - 60 + 3, 3e6 + 15])


def test_the_walk_has_its_standard_deviation_after_a_second():
    clocks = ClientClocks([CrystalSettings(walk_ppm=0.3)] * 2000, 20e6, np.random.SeedSequence(1))
    # The standard error of a standard deviation of 2,000 is 0.3 / sqrt(4000) = 0.005.
    assert np.std(clocks.rates_ppm(20e6)) == pytest.approx(0.3, abs=0.02)


def test_left_alone_a_client_is_off_by_its_stream_offset_delay_and_drift():
    """count(u) = count(s + delay) + T + offset, heard at u + delay: off by 2 delay + offset - T p / (1 + p)."""
    radios = VirtualRadios(QUIET)
    # Streams that are nearly in time, so that the answers fall inside the prefix.
    radios.stream_offset_samples[:] = [3.0, -2.0, 12.0]
    radios.delay_samples[:] = [0.5, 1.25, 2.0]
    result = free_run(radios)
    rate = 1e-6 * result.clock_ppm
    starts = LAYOUT.frame(QUIET.votes).sync_starts_samples()
    turnaround = LAYOUT.answer_samples + np.mean(starts)
    expected = 2 * radios.delay_samples + (radios.stream_offset_samples - turnaround * rate) / (1 + rate)
    # The clients' own error in timing the trigger is 0.0004 samples at 40 dB.
    np.testing.assert_allclose(result.residual_samples, expected, atol=0.002)
    np.testing.assert_allclose(result.arrivals.offset_samples, expected, atol=0.05)
    assert np.all(np.abs(result.clock_ppm) <= QUIET.ppm)


def test_corrections_move_the_answers():
    radios, same = VirtualRadios(QUIET), VirtualRadios(QUIET)
    before = free_run(radios, kind="acquire").residual_samples
    after = free_run(same, kind="acquire", corrections=np.array([10.5, -20.25, 3.0])).residual_samples
    np.testing.assert_allclose(after - before, [10.5, -20.25, 3.0], atol=1e-3)


@pytest.mark.parametrize("snr_db", [0.0, 15.0])
def test_what_is_measured_is_as_good_as_it_says(snr_db):
    """Errors of the measured offsets over their stated sigma: a mean square of 1, in payload and acquire rounds."""
    given = dataclasses.replace(QUIET, snr_db=snr_db, own_trigger_snr_db=20.0, ppm=0.5, walk_ppm=0.1)
    radios, loop = VirtualRadios(given), loop_for(given)
    ratios = {"payload": [], "acquire": []}
    for n, played in enumerate(play(loop, radios, 150)):
        arrivals = played.result.arrivals
        error = arrivals.offset_samples - played.result.residual_samples
        ratios[played.plan.kind].extend((error / arrivals.sigma_samples)[np.isfinite(error)])
        if n % 10 == 9:
            loop.restart()
    for kind in ratios:
        # Of 90 squares or more; all clients of a round share the server's trigger.
        assert 0.6 < np.mean(np.square(ratios[kind])) < 1.6


@pytest.mark.parametrize("snr_db", [0.0, 15.0])
def test_the_loops_doubt_is_what_is_left_in_the_next_round(snr_db):
    """True offsets over the sigma that the loop stated a round before: a mean square of 1.

    Without the client's own timing of its trigger in it, it was 4.2 at 0 dB and 1.6 at 15 dB.
    """
    given = dataclasses.replace(QUIET, snr_db=snr_db, own_trigger_snr_db=30.0, ppm=20.0, walk_ppm=0.1)
    squares, stated = [], None
    for played in play(loop_for(given), VirtualRadios(given), 220):
        if stated is not None and played.plan.round > 40:
            squares.extend((played.result.residual_samples / stated) ** 2)
        stated = np.array([view.sigma_samples for view in played.views])
    # Of 537 squares, nearly independent, as are the triggers' errors: a relative scatter of sqrt(2 / 537).
    assert np.isfinite(squares).all()
    assert np.mean(squares) == pytest.approx(1.0, abs=4 * np.sqrt(2 / len(squares)))


def test_echoes_are_heard_behind_the_first_path():
    """The strongest path moves, and is late by up to a few delay spreads."""
    spread = 2.0
    given = dataclasses.replace(QUIET, delay_spread_samples=spread)
    errors = []
    for played in play(loop_for(given), VirtualRadios(given), 100):
        if played.plan.kind == "payload":
            errors.extend(played.result.arrivals.offset_samples - played.result.residual_samples)
    errors = np.array(errors)[np.isfinite(errors)]
    assert 0.3 * spread < np.std(errors) < 2 * spread
    assert abs(np.mean(errors)) < 0.5 * spread


def test_power_is_that_of_the_links():
    given = dataclasses.replace(QUIET, gain_spread_db=10.0)
    result = free_run(VirtualRadios(given), kind="acquire")
    spread = np.ptp(result.arrivals.power_db)
    assert 1.0 < spread <= 20.0
    assert np.all(np.abs(result.arrivals.power_db) <= 10.1)


def test_the_same_seed_gives_the_same_run():
    def run(seed):
        return simulate(dataclasses.replace(QUIET, snr_db=15.0, seed=seed), 10).residual_samples

    np.testing.assert_array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4), equal_nan=True)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: VirtualSettings(ppm=500.0), "ppm"),
        (lambda: VirtualSettings(walk_ppm=-1.0), "walk_ppm"),
        (lambda: VirtualSettings(delay_spread_samples=100.0), "delay_spread_samples"),
        (lambda: VirtualSettings(interval_samples=5), "interval_samples"),
        (lambda: VirtualRadios(QUIET, [Fault(0, 3, "miss")]), "faults"),
        (lambda: Fault(0, 0, "flood"), "kind"),
        (lambda: Fault(-1, 0, "miss"), "round"),
        (lambda: ClientClocks([], 0.0, np.random.SeedSequence(1)), "sample_rate_hz"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
