# SPDX-License-Identifier: GPL-3.0-or-later
"""Import everything that a worker needs, once, in the process from which workers are forked."""

from __future__ import annotations

import gc
import sys
from types import TracebackType

import fl_app.core.client  # noqa: F401  (it brings torch, which takes seconds to import)


def _say_nothing_without_a_parent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Stay silent if the parent ended before it told this worker what to run; report every other error."""
    if not isinstance(error, EOFError):
        sys.__excepthook__(kind, error, trace)


# The collector passes over frozen objects: workers share their memory with this process, and it ends without a search.
gc.freeze()
sys.excepthook = _say_nothing_without_a_parent
