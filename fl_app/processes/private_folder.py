# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a folder for sockets that only this user can enter, and remove it even if its process is killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

OWNER = ".owner"  # name of a file in the folder; it stays locked while the process that made the folder lives


class PrivateFolder:
    """Make a temporary folder and remove it at the end.

    A process that `kill -9` ends cannot remove its folder. So each new folder first removes the folders with the same
    prefix whose lock no process holds.

    Parameters
    ----------
    prefix
        The beginning of the folder's name, below the system's folder for temporary files.
    """

    def __init__(self, prefix: str) -> None:
        _remove_abandoned(prefix)
        self._folder = tempfile.TemporaryDirectory(prefix=prefix)
        self.path = Path(self._folder.name)
        unnamed = self.path / f"{OWNER}-new"
        self._lock = unnamed.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / OWNER)  # the file is locked before it becomes visible

    def cleanup(self) -> None:
        """Remove the folder and its content."""
        self._folder.cleanup()
        self._lock.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _remove_abandoned(prefix: str) -> None:
    for owner in Path(tempfile.gettempdir()).glob(f"{prefix}*/{OWNER}"):
        try:
            with owner.open("r+") as lock:  # another user's folder cannot be entered
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)
        except OSError:  # its process lives, or another process has just removed it
            continue
