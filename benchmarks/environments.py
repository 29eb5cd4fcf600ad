# SPDX-License-Identifier: GPL-3.0-or-later
"""Make virtual environments for the programs of others, in the user's cache folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path


def environment(name: str, requirements: Sequence[str], *, over_ours: bool = False, dependencies: bool = True) -> Path:
    """Return the folder of the environment with these requirements; make it if it is missing.

    Processes that ask for the same environment at the same time wait for the first one.

    Parameters
    ----------
    name
        Name of the environment; one that was made with other arguments is made anew.
    requirements
        What pip installs.
    over_ours
        The environment sees the packages of this one, PyTorch above all, behind its own: pip installs what is missing
        here, and what the requirements need in another version. This environment stays as it is.
    dependencies
        Without them pip installs the requirements alone.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gr-oac" / f"{name}-venv"
    folder.parent.mkdir(parents=True, exist_ok=True)
    ours = sysconfig.get_path("purelib") if over_ours else None
    asked = f"{sys.version}\n{ours}\n{dependencies}\n" + "\n".join(requirements)
    done = folder / "made-with.txt"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done.exists() and done.read_text() == asked):
            _make(folder, requirements, ours, dependencies)
            done.write_text(asked)
    return folder


def _make(folder: Path, requirements: Sequence[str], ours: str | None, dependencies: bool) -> None:
    venv.create(folder, with_pip=True, clear=True, system_site_packages=ours is not None)
    python = folder / "bin" / "python"
    if ours is not None:
        # Before pip runs, so that pip counts these packages as installed. It removes nothing outside of the folder.
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
        Path(own, "over_ours.pth").write_text(ours + "\n")
    alone = [] if dependencies else ["--no-deps"]
    # -I: PYTHONPATH would show pip this checkout, which is no part of the environment.
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", *alone, *requirements], check=True)
