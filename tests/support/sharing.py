# SPDX-License-Identifier: GPL-3.0-or-later
"""Make costly things once for all of pytest's workers."""

import fcntl
import os
import shutil


def made_once(tmp_path_factory, name, make):
    """Return a folder that ``make(folder)`` has filled, in this worker or in another one of the same run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # left by a worker that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
