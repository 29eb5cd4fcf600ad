# SPDX-License-Identifier: GPL-3.0-or-later
"""`fl_app up`: one command for the whole bench, and nothing left behind, however it ends."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from fl_app.runs.run_folder import RunFolder
from tests.support.polling import DEADLINE_SECONDS, until
from tests.support.processes import FL_APP, assert_all_end, family_of, is_running
from tests.support.runs import assert_every_round_once


@pytest.fixture
def config(link_settings, tmp_path):
    """Many rounds of two clients that train nothing, and so start quickly."""

    def make(rounds, **sections):
        path = tmp_path / "bench.toml"
        run = {"rounds": rounds, "eval_every": 1000, "checkpoint_every": 5}
        path.write_text(link_settings(run=run, clients={"n": 2}, **sections).toml())
        return path

    return make


@pytest.fixture
def up(tmp_path):
    """Starts `fl_app up`; whatever it leaves is killed in the end."""
    started = []

    def start(*arguments, **options):
        command = [*FL_APP, "up", *map(str, arguments), "--no-training", "--out", str(tmp_path / "run")]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(command, start_new_session=True, text=True, **streams)
        started.append(process)
        return process

    yield start
    for process in started:
        for pid in [*family_of(process.pid), process.pid]:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def running_bench(process, run, rounds):
    """The processes of the bench, once so many rounds are done."""
    until(lambda: len(run.rows()) >= rounds or process.poll() is not None, f"{rounds} rounds")
    assert process.poll() is None, process.communicate()
    family = family_of(process.pid)
    assert len(family) >= 3  # a server and two clients
    return family


@pytest.mark.slow
def test_up_runs_the_bench_to_its_end(config, up, tmp_path):
    process = up(config(3), "--json")
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, err
    assert json.loads(out)["rounds"] == 3
    assert "round 3/3" in err
    run = RunFolder(tmp_path / "run")
    assert_every_round_once(run, 3)
    assert sorted(path.name for path in (run.path / "logs").iterdir()) == ["client-0.log", "client-1.log", "server.log"]
    assert "the run is finished" in (run.path / "logs" / "client-1.log").read_text()


@pytest.mark.slow
def test_killed_parent_leaves_nothing_behind(config, up, tmp_path):
    process = up(config(100_000))
    family = running_bench(process, RunFolder(tmp_path / "run"), 2)
    process.kill()
    process.communicate()
    assert_all_end(family)


@pytest.mark.slow
def test_server_that_dies_ends_the_bench_with_a_sentence(config, up, tmp_path):
    process = up(config(100_000))
    family = running_bench(process, RunFolder(tmp_path / "run"), 2)
    os.kill(family[0], signal.SIGKILL)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert "error: the server ended with code -9" in err
    assert "Traceback" not in err
    assert_all_end(family)


@pytest.mark.early
def test_client_that_dies_is_started_again_and_ctrl_c_takes_all_of_it_down(config, up, tmp_path):
    run = RunFolder(tmp_path / "run")
    process = up(config(100_000))
    family = running_bench(process, run, 2)
    os.kill(family[1], signal.SIGKILL)
    until(lambda: any(row.absent_clients for row in run.rows()), "rounds without it")
    until(lambda: run.rows()[-1].absent_clients == 0, "rounds with it once more")
    family += family_of(process.pid)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, err
    assert "client 0 ended with code -9; it is started again" in err
    assert f"To go on: fl_app up --resume {run.path}" in err
    assert "Traceback" not in err
    assert_all_end(family)
    assert run.latest().rounds_done == len(run.rows())


@pytest.mark.slow
def test_bench_that_cannot_start_says_why_and_leaves_no_folder(config, up, tmp_path):
    process = up(config(3, data={"name": "mnist", "root": str(tmp_path), "download": False}))
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1, err
    assert "server.log ends:" in err
    assert str(tmp_path) in err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_screen_on_a_terminal(config, up, tmp_path):
    ours, theirs = pty.openpty()
    process = up(config(2), stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "150"})
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0, seen
    text = seen.decode()
    for word in ("client", "state", "answered", "round 2/2", "to each client", "fading air"):
        assert word in text


@pytest.mark.slow
def test_flowgraph_that_dies_is_started_anew_and_training_goes_on(config, up, tmp_path):
    run = RunFolder(tmp_path / "run")
    process = up(config(12, air={"name": "gnuradio"}), "--json")
    family = running_bench(process, run, 4)
    [flowgraph] = [pid for pid in family if b"loopback_service" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(flowgraph, signal.SIGKILL)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, err
    assert "the flowgraph ended with code 1; it is started again" in err
    assert "Traceback" not in err
    assert_every_round_once(run, 12)
    assert json.loads(out)["vote_error_rate"] < 0.1
    assert_all_end(family)
