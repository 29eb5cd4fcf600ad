# SPDX-License-Identifier: GPL-3.0-or-later
"""Imported once, by the process that worker processes are forked from: everything that a worker needs."""

from __future__ import annotations

import sys
from types import TracebackType

import fl_app.core.client  # noqa: F401  (it brings torch, which takes seconds to import)


def _say_nothing_without_a_parent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A worker whose parent ended before it had said what to run has nothing to report to anybody."""
    if not isinstance(error, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say_nothing_without_a_parent
