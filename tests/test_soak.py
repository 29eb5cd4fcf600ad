# SPDX-License-Identifier: GPL-3.0-or-later
"""The soak's own parts: a schedule that repeats, and checks that can fail."""

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fl_app.runs.checkpoints import Checkpoint
from fl_app.runs.metrics import RoundFigures
from tests.soak import invariants
from tests.soak.benches import BENCHES, settings_for
from tests.soak.invariants import GROWTH_MB, Memory
from tests.soak.report import Finding, Report
from tests.soak.schedule import FAULTS_IN_A_VISIT, MENUS, VARIANTS, visits
from tests.soak.stage import Stage, Violation, role_of
from tests.support.paths import ROOT
from tests.support.polling import DEADLINE_SECONDS


def first(count, seed=1, **options):
    return list(itertools.islice(visits(seed, **options), count))


def row(number, k=5):
    return RoundFigures(
        round=number, k=k, loss=1.0, test_accuracy=None, test_loss=None, mean_aou=0.0, max_aou=0, participation=0.0,
        dropped_clients=0, vote_error_rate=None, votes_compared=0, symbols=1, air_seconds=0.0, snr_db=None,
        pmepr_db=None, train_seconds=0.1, air_cpu_seconds=0.0, seconds=0.2,
    )  # fmt: skip


def checkpoint(rows, sent=None):
    sent = sum(one.k for one in rows) if sent is None else sent
    return Checkpoint(len(rows), {"times_sent": np.array([sent])}, {"rows": [dataclasses.asdict(one) for one in rows]})


def test_the_same_seed_gives_the_same_faults_and_another_seed_others():
    assert first(50) == first(50)
    assert first(50) != first(50, seed=2)


def test_every_scenario_and_every_fault_has_its_turn():
    assert MENUS.keys() == BENCHES.keys() == VARIANTS.keys()
    assert {visit.scenario for visit in first(len(MENUS))} == set(MENUS)
    for name, menu in MENUS.items():
        # Cards are dealt: as many as there are on the menu are each of them once.
        dealt = [(fault.kind, fault.target) for visit in first(len(menu), scenarios=(name,)) for fault in visit.faults]
        assert sorted(dealt[: len(menu)]) == sorted(menu)
        assert len(dealt) == FAULTS_IN_A_VISIT * len(menu)


def test_every_bench_has_a_config_and_knows_each_fault():
    for visit in first(20):
        assert settings_for(visit).clients.n == 2
        assert all(hasattr(BENCHES[visit.scenario], f"_{fault.kind}") for fault in visit.faults)


def test_missing_doubled_and_disordered_rounds_are_found():
    rows = [row(number) for number in range(6)]
    assert invariants.rounds_once(rows) == []
    assert invariants.rounds_once([]) == []
    assert "rounds [2] are missing" in invariants.rounds_once(rows[:2] + rows[3:])[0]
    assert "rounds [3] stand in the metrics more than once" in invariants.rounds_once([*rows[:4], *rows[3:]])[0]
    assert "out of order" in invariants.rounds_once([rows[1], rows[0]])[0]


def test_checkpoint_that_lacks_doubles_or_differs_is_found():
    rows = [row(number) for number in range(6)]
    assert invariants.checkpoint_fits(None, rows) == []
    assert invariants.checkpoint_fits(checkpoint(rows[:4]), rows) == []
    assert "only 2" in invariants.checkpoint_fits(checkpoint(rows[:4]), rows[:2])[0]
    assert (
        "took 25 entries in 4 rounds, which asked for 20"
        in invariants.checkpoint_fits(checkpoint(rows[:4], 25), rows)[0]
    )
    other = [*rows[:3], dataclasses.replace(rows[3], loss=2.0)]
    assert "not those of the metrics" in invariants.checkpoint_fits(checkpoint(other), rows)[0]


def test_another_model_or_other_figures_are_found():
    rows = [row(number) for number in range(3)]
    slower = [dataclasses.replace(one, seconds=9.0, downlink_bytes=7) for one in rows]
    assert invariants.same_rounds(slower[:2], rows) == []
    other = [rows[0], dataclasses.replace(rows[1], loss=1.5)]
    assert "round 1 differs" in invariants.same_rounds(other, rows)[0]
    w = np.zeros(4, np.float32)
    nearly = w.copy()
    nearly[3] = np.float32(1e-45)
    assert invariants.same_model({"w": w}, {"w": w.copy()}) == []
    assert "['w'] differ" in invariants.same_model({"w": nearly}, {"w": w})[0]


def test_memory_that_grows_is_found():
    flat = Memory("server", 1, warm_mb=300, most_mb=300 + GROWTH_MB, most_after_warm_mb=300 + GROWTH_MB)
    assert invariants.memory_flat([flat, Memory("client-0", 2, most_mb=900)]) == []
    leaking = dataclasses.replace(flat, most_after_warm_mb=301 + GROWTH_MB)
    assert "grew from 300 MB" in invariants.memory_flat([leaking])[0]
    assert "more than 500 MB" in invariants.memory_flat([Memory("plutos", 3, warm_mb=600, most_mb=600)])[0]


def test_tracebacks_are_found():
    text = "fine\nTraceback (most recent call last):\n  File x\nValueError: no\n"
    assert invariants.no_traceback({"a": "error: a sentence", "b": text}) == ["b has a traceback: ValueError: no"]


def test_roles_are_read_from_command_lines():
    python = ["/x/bin/python", "-c", "from fl_app.cli.app import app; app()"]
    assert role_of([*python, "client", "--server", "ipc://x", "--id", "1"]) == "client-1"
    assert role_of([*python, "radio", "c.toml", "--loopback", "2"]) == "radio"
    assert role_of(["/x/bin/fl_app", "radio", "--uri", "ip:x"]) == "radio-command-server"
    assert role_of(["/x/bin/fl_app", "radio", "--uri", "ip:x", "--client", "0"]) == "radio-command-0"
    assert role_of(["python", "-m", "oac_blocks.bench.flows.pluto_service", "server", "{}"]) == "flowgraph-server"
    assert role_of(["python", "-m", "oac_blocks.bench.flows.loopback_service", "/tmp/x", "{}"]) == "flowgraph"
    assert role_of(["/x/bin/python", "/x/bin/oac-virtual-pluto", "--radios", "3"]) == "plutos"
    assert role_of(["/x/bin/python", "/x/bin/fl_app", "resume", "run"]) == "train"


def test_a_leaked_process_growing_memory_and_a_socket_file_are_found_and_taken_down():
    """For real: a program that leaves a child behind, which holds more and more."""
    code = f"""
import os, socket, sys, time
if os.fork():
    os._exit(0)
socket.socket(socket.AF_UNIX).bind(sys.argv[1])
print("warm", flush=True)
held = [b"x" * {int(2 * GROWTH_MB * 1e6)}] if sys.stdin.readline() else []
print("grown", flush=True)
time.sleep(600)
"""
    with Stage() as stage:
        sink = stage.temporary / "socket"
        process = stage.start("leaker", "python", "-c", code, sink, stdin=subprocess.PIPE)
        assert process.wait(60) == 0
        stage.until(lambda: "warm" in stage.log("leaker"), "line", 60)
        [leaked] = stage.ours()
        stage.until(lambda: leaked in stage.memory, "look at its memory", 60)
        stage.mark_warm()
        assert invariants.memory_flat(stage.memory.values()) == []
        process.stdin.write(b"go\n")
        process.stdin.flush()
        stage.until(lambda: invariants.memory_flat(stage.memory.values()) != [], "growth", 60)
        assert f"pid {leaked}) was left behind" in invariants.nothing_runs(stage.ours())[0]
        assert invariants.nothing_lies_about([stage.temporary]) == [f"{sink} was left behind (a socket)"]
        assert invariants.nothing_lies_about([stage.logs / "none"]) == []
        with pytest.raises(Violation, match="no miracle within 0 s"):
            stage.until(lambda: False, "miracle", 0)
    assert not stage.ours()
    assert not stage.folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk to fill")
def test_a_disk_is_filled_and_freed():
    with Stage() as stage:
        if stage.disk_fault:
            pytest.skip(stage.disk_fault)
        stage.fill_disk()
        with pytest.raises(OSError, match="No space left"):
            (stage.disk / "more").write_bytes(b"x" * 8192)
        stage.free_disk()
        (stage.disk / "more").write_bytes(b"x" * 8192)


def test_report_names_the_faults_and_how_to_repeat_a_violation(capsys):
    from rich.console import Console

    report = Report(seed=7)
    visit = first(1)[0]
    report.injected(visit, visit.faults[0])
    repeat = "python -m tests.soak --seed 7 --visit 0"
    report.findings.append(Finding(12.0, 0, visit.scenario, str(visit.faults[0]), "round 3 is missing", repeat))
    report.show(Console(width=150))
    shown = capsys.readouterr().out
    assert "1 faults, 1 violations" in shown
    assert f"to repeat: {repeat}" in shown
    assert report.as_json()["violations"][0]["what"] == "round 3 is missing"


def test_ctrl_c_ends_a_soak_with_its_report(tmp_path):
    """In its first seconds, before any bench has started to train."""
    command = [sys.executable, "-m", "tests.soak", "--scenario", "up-gnuradio", "--keep", str(tmp_path)]
    place = {"cwd": ROOT, "env": {**os.environ, "TMPDIR": str(tmp_path)}}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **place)
    try:
        assert "visit 0: up-gnuradio" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130, out
    assert "stopped by Ctrl-C" in out
    assert "0 faults, 0 violations" in out
    assert not list(tmp_path.iterdir())
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
