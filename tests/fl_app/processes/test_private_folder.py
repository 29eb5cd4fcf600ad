# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders for sockets go with their process, also with one that is killed."""

import subprocess
import sys
import tempfile

from fl_app.processes.private_folder import PrivateFolder

KILLED = """
import os, signal, sys
from fl_app.processes.private_folder import PrivateFolder
folder = PrivateFolder("oac-test-")
(folder.path / "socket").touch()
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_one_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "oac-test-of-somebody").mkdir()
    with PrivateFolder("oac-test-") as ours:
        assert ours.stat().st_mode & 0o777 == 0o700
        command = [sys.executable, "-c", KILLED]
        subprocess.run(command, env={"TMPDIR": str(tmp_path)}, cwd=".", timeout=60, check=False)
        left = {path.name for path in tmp_path.iterdir()} - {ours.name, "oac-test-of-somebody"}
        assert len(left) == 1
        with PrivateFolder("oac-test-") as next_one:
            assert {path.name for path in tmp_path.iterdir()} == {ours.name, "oac-test-of-somebody", next_one.name}
    assert [path.name for path in tmp_path.iterdir()] == ["oac-test-of-somebody"]
