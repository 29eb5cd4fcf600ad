# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a hash of all settings that change a run's results, so that server and clients can compare their runs."""

from __future__ import annotations

import hashlib

from fl_app.config import Settings

# Settings that each machine chooses for itself: where and how it computes.
_LOCAL = {"run": ("workers", "threads", "device", "loggers", "out"), "data": ("root", "download")}


def config_hash(settings: Settings) -> str:
    """Return a hash of the settings that determine a run; folders, devices and deadlines do not count."""
    tree = settings.model_dump(mode="json", exclude={"link"})
    for section, keys in _LOCAL.items():
        for key in keys:
            tree[section].pop(key)
    lines = sorted(f"{section}.{key}={value!r}" for section, part in tree.items() for key, value in part.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
