# SPDX-License-Identifier: GPL-3.0-or-later
"""Make virtual environments for the programs of others, in the user's cache folder."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path


def environment(name: str, requirements: Sequence[str], *, over_ours: bool = False) -> Path:
    """Return the folder of the environment with these requirements; make it if it is missing.

    With ``over_ours`` the environment sees the packages of this one, PyTorch above all, and installs the requirements
    without what they depend on.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gr-oac" / f"{name}-venv"
    done = folder / requirements[0].replace("/", "-")
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True, system_site_packages=over_ours)
        python = folder / "bin" / "python"
        alone = ["--no-deps"] if over_ours else []
        subprocess.run([python, "-m", "pip", "install", "--quiet", *alone, *requirements], check=True)
        if over_ours:
            ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
            own = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
            Path(own, "over_ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        done.touch()
    return folder
