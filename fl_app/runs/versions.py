# SPDX-License-Identifier: GPL-3.0-or-later
"""Say with which versions a run was computed, and when: what a paper reports, and what the last bits depend on."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

SECONDS_TO_ANSWER = 10.0  # after which GNU Radio's program counts as not there


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of gr-oac and of what it computes with; GNU Radio only where Python finds it."""
    found = {"gr-oac": version("gr-oac"), "Python": platform.python_version()}
    found |= {name: version(name) for name in ("torch", "numpy")}
    gnu_radio = _gnu_radio()
    return found | ({"GNU Radio": gnu_radio} if gnu_radio else {})


def session() -> dict[str, Any]:
    """Return the date and the versions, as sessions.json keeps them for each time that a run was begun or resumed."""
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "versions": dict(versions())}


def versions_text(sessions: Sequence[Mapping[str, Any]]) -> str:
    """Return "gr-oac 0.1.0, Python 3.11.2, ..." of all sessions; a version that changed has all its values."""
    names = dict.fromkeys(name for one in sessions for name in one["versions"])
    values = {name: dict.fromkeys(one["versions"].get(name, "none") for one in sessions) for name in names}
    return ", ".join(f"{name} {' and '.join(own)}" for name, own in values.items())


def dates_text(sessions: Sequence[Mapping[str, Any]]) -> str:
    """Return "2026-01-31 14:25 UTC", or the first and the last date."""
    dates = sorted(datetime.fromisoformat(one["date"]).strftime("%Y-%m-%d %H:%M UTC") for one in sessions)
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def _gnu_radio() -> str:
    """Return GNU Radio's version, by its own program: to import it takes longer than to write a report."""
    program = shutil.which("gnuradio-config-info")
    if program is None or find_spec("gnuradio") is None:
        return ""
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=SECONDS_TO_ANSWER)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""
