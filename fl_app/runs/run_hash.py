# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the settings that change a run's results, so that two machines, or two calls, train the same run."""

from __future__ import annotations

import hashlib

from fl_app.config import Settings

# Settings that each machine chooses for itself: where and how it computes.
_LOCAL = {"run": ("workers", "threads", "device", "loggers", "out"), "data": ("root", "download")}


def config_hash(settings: Settings) -> str:
    """Return a hash of the settings that determine a run; folders, devices and deadlines do not count."""
    lines = sorted(f"{key}={value!r}" for key, value in _deciding(settings).items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def differences(kept: Settings, asked: Settings) -> list[str]:
    """Return a phrase for each setting in which two runs differ that should be one; the number of rounds may differ."""
    one, other = _deciding(kept), _deciding(asked)
    passing = ("run.rounds", "run.checkpoint_every")
    return [
        f"its {key} is {value!r}, not {other[key]!r}"
        for key, value in one.items()
        if value != other[key] and key not in passing
    ]


def _deciding(settings: Settings) -> dict[str, object]:
    tree = settings.model_dump(mode="json", exclude={"engine", "link"})
    return {
        f"{section}.{key}": value
        for section, part in tree.items()
        for key, value in part.items()
        if key not in _LOCAL.get(section, ())
    }
