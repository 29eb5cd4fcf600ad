# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that fills up while a run writes to it: one sentence, the last checkpoint stays whole, and the run goes on."""

import shutil
import subprocess
from dataclasses import fields

import pytest
import torch
from typer.testing import CliRunner

from fl_app.cli.app import app
from fl_app.runs.events import Events
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder
from tests.support.polling import until
from tests.support.processes import FL_APP
from tests.support.runs import assert_every_round_once

DISK_BYTES = 24 << 20


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("there is no program `mount`")
    made = subprocess.run([mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], capture_output=True)
    if made.returncode:
        pytest.skip(f"only root may mount a file system: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(path):
    """Write until nothing more fits, down to the last byte."""
    with path.open("wb", buffering=0) as stream:
        for size in (1 << 16, 1):
            try:
                while stream.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def test_events_on_a_full_disk_say_so_once(disk, capfd):
    events = Events(disk / "events", 0)
    fill(disk / "other files")
    row = RoundFigures(**{field.name: 1 for field in fields(RoundFigures) if field.name != "test_figures"})
    with pytest.raises(OSError, match="No space left"):
        until(lambda: events.on_round(None, row), "the fault of TensorBoard's own thread")
    events.close()
    assert capfd.readouterr().err == ""


def test_run_on_a_full_disk_ends_with_a_sentence_and_goes_on_when_there_is_room(tiny_options, disk, program):
    run = RunFolder(disk / "run")
    options = [*tiny_options, "--set=run.rounds=100000", "--set=run.eval_every=1000"]
    training = program([*FL_APP, "train", *options, "--out", run.path])
    training.reaches(lambda: run.latest() is not None, "a checkpoint")
    fill(disk / "other files")
    assert training.wait() == 1
    last = training.err.splitlines()[-1]
    assert last.startswith("error: cannot ")
    assert "the disk is full" in last
    assert "Traceback" not in training.err
    done = run.latest().rounds_done
    (disk / "other files").unlink()
    threads = torch.get_num_threads()
    result = CliRunner().invoke(app, ["resume", str(run.path), "--rounds", str(done + 2)])
    torch.set_num_threads(threads)
    assert result.exit_code == 0, result.output
    assert_every_round_once(run, done + 2)
