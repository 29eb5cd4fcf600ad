# SPDX-License-Identifier: GPL-3.0-or-later
"""`fl_app` from a preloaded process does what `fl_app` does: output, exit status, folder, variables, signals."""

import os
import signal
import subprocess

import pytest

from tests.docs.preloaded import Preloaded
from tests.docs.runner import _environment
from tests.support.polling import DEADLINE_SECONDS, until


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Variables of a shell that finds the quick program first."""
    folder = tmp_path_factory.mktemp("preloaded") / "programs"
    preloaded = Preloaded(folder, _environment())
    yield {**_environment(), "PATH": f"{folder}:{_environment()['PATH']}"}
    preloaded.end()


def shell(text, folder, variables):
    run = subprocess.run(["bash", "-o", "pipefail", "-c", text], cwd=folder, env=variables, capture_output=True)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize(
    "text",
    [
        "fl_app list",
        "fl_app show-config nowhere.toml",  # exit status 2, and the error on stderr
        "fl_app show-config quickstart > here.toml && fl_app show-config here.toml --set run.rounds=7 | grep -c rounds",
        "COLUMNS=60 fl_app train --help",
    ],
)
def test_output_and_exit_status_are_those_of_the_program(text, quick, tmp_path):
    assert shell(text, tmp_path, quick) == shell(text, tmp_path, _environment())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_to_the_group_ends_it_as_it_ends_the_program(number, status, quick, tmp_path):
    """130 is what `fl_app` itself makes of SIGTERM; nothing can be made of SIGKILL."""
    wait_for_ever = "fl_app client --server tcp://127.0.0.1:9 --id 0 --patience-seconds 600"
    with (tmp_path / "log").open("wb") as log:
        caller = subprocess.Popen(
            ["bash", "-c", f"echo $$ > pid; exec {wait_for_ever}"],
            cwd=tmp_path,
            env=quick,
            stdout=log,
            stderr=log,
            process_group=0,
        )
    fork = until(lambda: [pid for pid in members(caller.pid) if pid != caller.pid], "the fork")
    until((tmp_path / "log").read_text, "its first words")
    os.killpg(caller.pid, number)
    assert caller.wait(DEADLINE_SECONDS) == status
    until(lambda: not set(fork) & set(members(caller.pid)), "the end of the fork")


def members(group):
    """Processes of a group that still run."""
    listed = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, own, state in rows if int(own) == group and not state.startswith("Z")]
