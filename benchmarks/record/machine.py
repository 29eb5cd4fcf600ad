# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the machine, the versions and the commit that figures belong to."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("numpy", "scipy", "torch", "numba", "ray")


def commit(revision: str = "HEAD") -> str:
    """Return the commit's short name; that of HEAD ends in "-changed" if tracked files differ from it."""
    name = _git("rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}")
    return f"{name}-changed" if revision == "HEAD" and _git("status", "--porcelain", "-uno") else name


def describe() -> dict[str, Any]:
    """Return CPU, cores, memory, versions, commit and date as JSON values."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*words: str) -> str:
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        raise ValueError(f"git {' '.join(words)} failed: {run.stderr.strip()}")
    return run.stdout.strip()
