# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes, really killed: a run goes on bit for bit."""

import os
import signal
import subprocess

import pytest
import torch
from typer.testing import CliRunner

from fl_app.cli.app import app
from fl_app.runs.run_folder import RunFolder
from tests.support.polling import DEADLINE_SECONDS, until
from tests.support.processes import FL_APP, assert_all_end, family_of
from tests.support.runs import assert_same_run

ROUNDS = 12


def start(*arguments):
    """In a process group of its own, as a shell starts it: a signal to the group reaches the workers, too."""
    command = [*FL_APP, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_rounds(process, folder, rounds):
    """Until so many rounds are in metrics.jsonl; fails if the process ends first."""
    until(lambda: len(folder.rows()) >= rounds or process.poll() is not None, f"{rounds} rounds")
    assert len(folder.rows()) >= rounds, process.communicate()


def finish(process, code=0):
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == code, err
    return out, err


def fl_app_here(*arguments):
    """The same command within this process, which has torch loaded already."""
    threads = torch.get_num_threads()
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    torch.set_num_threads(threads)
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def long_options():
    changes = {
        "run.seed": 3,
        "run.rounds": ROUNDS,
        "run.eval_every": 5,
        "run.checkpoint_every": 2,
        "data.limit": 300,
        "data.test_limit": 100,
        "clients.n": 3,
        "clients.H": 3,
        "clients.batch_size": 8,
        "air.name": "waveform",
    }
    return [f"--set={key}={value}" for key, value in changes.items()]


@pytest.fixture(scope="module")
def whole(long_options, tmp_path_factory):
    """The run that nobody disturbed."""
    folder = RunFolder(tmp_path_factory.mktemp("whole") / "run")
    fl_app_here("train", *long_options, "--workers", 0, "--out", folder.path)
    return folder


@pytest.mark.parametrize("workers", [0, 2])
def test_run_killed_in_mid_round_goes_on_bit_for_bit(long_options, whole, tmp_path, workers):
    folder = RunFolder(tmp_path / "run")
    process = start("train", *long_options, "--workers", workers, "--out", folder.path)
    wait_for_rounds(process, folder, 3)
    family = family_of(process.pid)
    process.kill()
    finish(process, -signal.SIGKILL)
    assert len(folder.rows()) < ROUNDS
    assert folder.latest().rounds_done < ROUNDS
    assert_all_end(family)
    _, err = finish(start("resume", folder.path))
    assert "going on after round" in err
    assert_same_run(folder, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_signal_finishes_the_round_saves_and_says_how_to_go_on(long_options, whole, tmp_path, number):
    folder = RunFolder(tmp_path / "run")
    process = start("train", *long_options, "--workers", 2, "--out", folder.path)
    wait_for_rounds(process, folder, 3)
    os.killpg(process.pid, number)
    _, err = finish(process, 130)
    assert f"To go on: fl_app resume {folder.path}" in err
    assert "Traceback" not in err
    done = len(folder.rows())
    assert 3 <= done < ROUNDS
    assert folder.latest().rounds_done == done
    fl_app_here("resume", folder.path, "--workers", 0)
    assert_same_run(folder, whole)
