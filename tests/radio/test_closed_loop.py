# SPDX-License-Identifier: GPL-3.0-or-later
"""The calibration loop over virtual Plutos, with the real libiio and pyadi-iio over TCP, on the lock-step clock.

Residuals are the air's own truth. Settled rounds are payload rounds but the first after a client was acquired.
"""

import numpy as np
import pytest

from benchmarks import radio_rounds as wall_clock
from oac_blocks.bench.threads.bench import BenchSettings
from oac_blocks.dsp.channel.fading import PROFILES
from tests.radio.closed_loop import CONFIG, run

pytest.importorskip("oac_blocks.radio.pluto")


def settled(log):
    """True residuals of clients in payload rounds, but the first after they were acquired."""
    found = []
    for before, last, now in zip(log, log[1:], log[2:], strict=False):
        if now.kind != "payload":
            continue
        for client, residual in enumerate(now.residuals):
            if before.states[client] == last.states[client] == "tracking" and last.kind == "payload":
                found.append(residual)
    return np.array(found)


def show(log):
    left = settled(log)
    print(f"{len(left)} answers, {np.sqrt(np.mean(left**2)):.3f} samples RMS, {np.abs(left).max():.3f} at most")


def test_clients_align_and_two_runs_are_equal():
    first, second = run(14), run(14)
    assert repr(first) == repr(second)  # NaN is not equal to itself
    locked = next(i for i, one in enumerate(first) if one.states == ["tracking", "tracking"])
    assert locked <= 3
    assert all(one.states == ["tracking", "tracking"] for one in first[locked:])
    left = settled(first)
    assert len(left) >= 16
    assert np.sqrt(np.mean(left**2)) < 0.03
    assert np.abs(left).max() < 0.1


def test_a_gap_is_calibrated_again_while_the_others_go_on():
    """Client 1 loses 777 samples in mid-stream: it would be that much late for ever."""
    log = run(16, faults=["0.3 underflow 2 777"], settings=BenchSettings(reopens=False))
    broken = next(i for i, one in enumerate(log) if i > 3 and one.states[1] != "tracking")
    back = next(i for i, one in enumerate(log) if i > broken and one.states[1] == "tracking")
    assert back - broken <= 3
    assert all(one.states[0] == "tracking" for one in log[3:])
    assert log[-1].corrections[1] == pytest.approx(log[broken - 1].corrections[1] - 777, abs=1)
    left = settled(log)
    assert np.abs(left[np.isfinite(left)]).max() < 0.1


def test_a_radio_that_is_unplugged_comes_back_while_the_others_go_on():
    """How long it takes to find it again is the machine's affair; what follows is not."""

    def back(log):
        states = [one.states[1] for one in log]
        gone = next((i for i in range(4, len(states)) if states[i] != "tracking"), len(states))
        return states[gone:].count("tracking") >= 4

    log = run(400, faults=["0.25 unplug 2", "0.4 plug 2"], until=back)
    assert back(log)
    assert all(one.states[0] == "tracking" for one in log[3:])
    assert any(one.kind == "payload" and one.states[1] != "tracking" for one in log[4:])
    left = settled(log)
    assert np.abs(left[np.isfinite(left)]).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "air", "rms", "largest"),
    [
        (2, {}, 0.03, 0.1),
        (5, {}, 0.03, 0.1),
        (2, {"snr_db": 14.0}, 0.1, 0.4),  # 5 dB a sample
        (2, {"walk_ppm": 0.1, "wobble_ppm": 0.0}, 0.03, 0.1),
        (2, {"lo_ppm": 5.0}, 0.03, 0.1),  # 60 kHz together with the crystals' own
    ],
    ids=["two", "five", "5 dB", "walk", "oscillators"],
)
def test_many_rounds(clients, air, rms, largest):
    log = run(80, clients, **air)
    show(log)
    assert all(state == "tracking" for one in log[6:] for state in one.states)
    left = settled(log)
    assert np.sqrt(np.mean(left**2)) < rms
    assert np.abs(left).max() < largest


def check_echoes(channel, rounds):
    """Rayleigh, another every 0.1 s, some four rounds. Echoes that are closer than a sample are heard as one.

    Where that one is differs from the mean of their delays by about their spread, whoever looks for it. In a deep fade
    it may go further: the loop takes that for a jump, and is back a round later.
    """
    log = run(rounds, channel=channel, fading="rayleigh", coherence_seconds=0.1)
    show(log)
    assert np.mean([state == "tracking" for one in log[6:] for state in one.states]) > 0.95
    left = settled(log)
    spread_samples = PROFILES[channel].rms_delay_spread_seconds() * CONFIG.sample_rate_hz
    assert np.sqrt(np.mean(left**2)) < 2 * spread_samples
    assert np.abs(left).max() < BenchSettings().num.cp_samples / 3


def test_echoes_of_a_room_move_it_by_no_more_than_their_spread():
    check_echoes("indoor", 14)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["indoor", "epa", "eva", "etu"])
def test_many_rounds_with_echoes(channel):
    check_echoes(channel, 80)


@pytest.mark.slow
@pytest.mark.parametrize("frozen_seconds", [0.2, 1.0])
def test_on_the_wall_clock(frozen_seconds):
    """Depends on how busy the machine is: no gate. Offsets are measured ones.

    The process with all three radios is frozen in the middle: their queues bear some 0.2 s, and not a second.
    """
    played = wall_clock.run(0.6e6, 60, frozen_seconds=frozen_seconds)
    offsets = played.settled_offsets()
    print(
        f"usable {played.usable_share:.2f}, {np.abs(offsets).max():.3f} samples at most, {played.result['gaps']} gaps,"
    )
    print(f"usable again after {played.recovery_seconds:.1f} s, air slower by {played.slowed_share:.0%}")
    assert len(played.rounds) == 60
    assert played.usable_share >= 0.7
    assert np.abs(offsets).max() < 1
    assert played.recovery_seconds < 5 * (1 + played.slowed_share)
    if frozen_seconds == 1.0:
        assert played.result["gaps"] >= 1
