# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder for sockets that this user alone can enter, and that is removed even if its process is killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

OWNER = ".owner"  # a file in the folder, locked for as long as the process that made the folder lives


class PrivateFolder:
    """A temporary folder that is removed at the end.

    A process that `kill -9` ends cannot remove its folder. So each new folder first removes those of its prefix whose
    process is gone: nobody holds their lock.

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
        unnamed.rename(self.path / OWNER)  # it is locked from the first moment it can be seen

    def cleanup(self) -> None:
        """Remove the folder and all that is in it."""
        self._folder.cleanup()
        self._lock.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _remove_abandoned(prefix: str) -> None:
    for owner in Path(tempfile.gettempdir()).glob(f"{prefix}*/{OWNER}"):
        try:
            with owner.open("r+") as lock:  # not of another user, whose folder cannot be entered
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)
        except OSError:  # its process lives, or somebody else has just removed it
            continue
