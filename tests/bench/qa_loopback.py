# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole system in one flowgraph: clocks 20 ppm off, streams hundreds of samples off, and the votes are right.

A round's votes share their fading, so a standard error is taken from the scatter between rounds.
"""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from oac_blocks.bench.flows.loopback import LoopbackSettings, loopback
from oac_blocks.bench.flows.loopback_trial import Voters, expected_error_rate, run_trial
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp.bounds import mv_error_probability
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import DEADLINE_SECONDS, until


def test_closed_form_of_fair_coins():
    """Three clients: all agree with probability 1/4, else two are against one."""
    snr = 10.0
    agree, split = mv_error_probability(3, 0, snr), mv_error_probability(2, 1, snr)
    assert expected_error_rate(3, 10.0) == pytest.approx(agree / 4 + 3 * split / 4)
    assert expected_error_rate(2, 10.0) == pytest.approx(mv_error_probability(2, 0, snr))  # ties do not count


@pytest.mark.parametrize(
    ("clients", "profile", "rounds"),
    [
        (2, "eva", 60),
        (3, "epa", 60),
        pytest.param(5, "epa", 150, marks=pytest.mark.slow),
        pytest.param(8, "epa", 150, marks=pytest.mark.slow),
    ],
)
def test_after_calibration_the_error_rate_is_the_closed_forms(clients, profile, rounds):
    trial = run_trial(LoopbackSettings(clients=clients, rounds=rounds, snr_db=10.0, profile=profile))
    assert trial.payload_rounds > rounds / 2
    assert set(trial.states) == {"tracking"}
    assert abs(trial.standard_errors_off) < 3
    assert (trial.triggers_missed, trial.slips, trial.dropped) == (0, 0, 0)


def test_without_calibration_it_is_not():
    trial = run_trial(LoopbackSettings(rounds=10, snr_db=10.0, profile="eva", calibrate=False))
    assert trial.payload_rounds == 10
    assert trial.error_rate == pytest.approx(0.5, abs=0.02)  # the server hears nothing where it listens: coins
    assert trial.standard_errors_off > 20


def test_without_fading_arrivals_are_within_hundredths_of_a_sample():
    trial = run_trial(LoopbackSettings(rounds=20, snr_db=30.0, fading="none", profile="flat", clock_walk_ppm=0.0))
    assert trial.first_payload_round <= 3
    assert trial.offset_rms_samples < 0.03
    assert trial.expected_error_rate is None


@pytest.mark.parametrize("settings", [{"sample_rate_hz": 1e6}, {"fft_size": 1024, "cp_samples": 256, "votes": 5000}])
def test_slow_radios_and_long_symbols(settings):
    """20 ppm at 2.4 GHz are 0.3 rad/sample at 1 Msps: the clients search as far as that."""
    trial = run_trial(LoopbackSettings(rounds=8, **settings))
    assert set(trial.states) == {"tracking"}
    assert trial.payload_rounds >= 3
    assert trial.error_rate < 0.05


def test_one_false_trigger_costs_one_round():
    """A client that answers once too often goes on with the next order."""
    flow = loopback(LoopbackSettings(votes=960, profile="flat", fading="none"))
    voters = Voters(flow)
    search = flow.clients[0]._search
    push = search.push
    hits = []

    def twice(samples):
        found = push(samples)
        if found and len(voters.record.payload_rounds) == 3 and not hits:
            hits.append(dataclasses.replace(found[0], time_samples=found[0].time_samples + 100_000, snr=1e-3))
            return [*found, *hits]
        return found

    search.push = twice
    with running(flow):
        until(lambda: len(voters.record.payload_rounds) > 8)
    assert len(hits) == 1


RUN_ALONE = """
import json
from oac_blocks.bench.flows.loopback import LoopbackSettings
from oac_blocks.bench.flows.loopback_trial import run_trial
print(json.dumps(run_trial(LoopbackSettings(rounds=12, snr_db=5.0, votes=5000, seed=7)).to_dict()))
"""


def test_two_processes_with_one_seed_decide_alike():
    command = [sys.executable, "-c", RUN_ALONE]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    trials = [json.loads(run.communicate(timeout=DEADLINE_SECONDS)[0].splitlines()[-1]) for run in runs]
    timed = {"seconds", "rounds_per_second", "samples_per_second"}
    first, second = ({name: trial[name] for name in trial.keys() - timed} for trial in trials)
    assert first["payload_rounds"] > 5
    assert first == second
    other = run_trial(LoopbackSettings(rounds=12, snr_db=5.0, votes=5000, seed=8))
    assert other.decisions != first["decisions"]


def test_a_gap_is_healed_while_the_others_go_on():
    flow = loopback(LoopbackSettings(clients=3, votes=960, profile="flat", fading="none"))
    voters = Voters(flow)
    statuses = Messages(flow, flow.clients[1], "status")
    with running(flow):
        until(lambda: len(voters.record.payload_rounds) > 3)
        post(flow.clients[1], "gap", pdus.as_pmt("pulled the plug"))
        until(lambda: flow.clients[1].epoch == 1)
        before = len(voters.record.payload_rounds)
        until(lambda: flow.calibrator.clients[1].epoch == 1 and flow.calibrator.all_tracking)
        until(lambda: len(voters.record.payload_rounds) > before + 3)
    assert [view.epoch for view in flow.calibrator.clients] == [0, 1, 0]
    events = [pdus.read_notice(statuses[i]) for i in range(len(statuses))]
    gap = next(i for i, status in enumerate(events) if status["event"] == "gap")
    assert events[gap]["reason"] == "pulled the plug"
    sent = [status["sent"] for status in events[gap:] if status["event"] == "answered"]
    assert sent[:2] == ["acquire", "acquire"]
    assert sent[-1] == "payload"


def test_calibration_switched_off_and_on_again():
    # Two clients of equal strength meet at any phase: now and then they cancel, even without noise.
    flow = loopback(LoopbackSettings(votes=960, profile="flat", fading="none", snr_db=20.0))
    voters = Voters(flow)
    rates = voters.record.error_rates
    with running(flow):
        until(lambda: len(rates) > 2)
        assert rates[-1] < 0.2
        flow.calibrator.set_enabled(False)
        until(lambda: rates[-1] > 0.3)
        flow.calibrator.set_enabled(True)
        until(lambda: rates[-1] < 0.2)


def resident_megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.mark.slow
def test_a_thousand_rounds():
    """No slip, no miss, and memory that does not grow."""
    memory = {}

    def look(done):
        memory[done] = resident_megabytes()

    trial = run_trial(LoopbackSettings(rounds=1000, snr_db=10.0, profile="eva"), look)
    assert (trial.rounds, trial.triggers_missed, trial.slips, trial.dropped) == (1000, 0, 0, 0)
    assert abs(trial.standard_errors_off) < 3
    early = max(value for done, value in memory.items() if 200 <= done < 400)
    late = max(value for done, value in memory.items() if done >= 800)
    assert late - early < 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": 0}, "clients must be"),
        ({"answer_samples": 1000}, "turnaround_samples must be|answer_samples must be"),
        ({"stream_offset_samples": 100_000}, "stream_offset_samples must be"),
        ({"profile": "fog"}, "profile must be"),
        ({"clock_ppm": 400.0, "sample_rate_hz": 1e6}, "frequency offset must be at most"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        loopback(LoopbackSettings(**settings))


def test_a_trial_has_an_end():
    with pytest.raises(ValueError, match="rounds must be at least 1 for a trial"):
        run_trial(LoopbackSettings(rounds=0))
