# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the real CIFAR-10 on this machine.

The environment variable ``GR_OAC_CIFAR10`` names it: a tar archive of the folder cifar-10-batches-py, the folder that
holds this folder, or the folder itself. Without the variable, an archive beside the repository is used if it exists.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.paths import ROOT

VARIABLE = "GR_OAC_CIFAR10"
BESIDE = ROOT.parent / "shared" / "data" / "cifar-10-batches-py.tar.xz"
BATCHES = "cifar-10-batches-py"


class NoCifar10Error(Exception):
    """CIFAR-10 is not on this machine; the message says what to set."""


def cifar10_folder(cache):
    """Return the folder that holds cifar-10-batches-py; an archive is unpacked into ``cache`` once, and kept."""
    named = os.environ.get(VARIABLE)
    given = Path(named) if named else BESIDE
    if given.is_dir():
        folder = given.parent if given.name == BATCHES else given
        if not (folder / BATCHES).is_dir():
            raise FileNotFoundError(f"{VARIABLE} names the folder {given}, which must hold a folder {BATCHES}")
        return folder
    if not given.exists():
        if named:
            raise FileNotFoundError(f"{VARIABLE} names {given}, which does not exist")
        raise NoCifar10Error(f"needs CIFAR-10: set {VARIABLE} to its archive (cifar-10-python.tar.gz) or its folder")
    folder = cache / "cifar10"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(dir=cache))
        subprocess.run(["tar", "xf", given, "-C", unpacked], check=True)
        try:
            unpacked.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(unpacked)
    return folder
