# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile a function to machine code that releases Python's lock, and keep the result on the disk.

Only modules of kernels import this one, and these are imported where a kernel is called: numba takes half a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call, for the types of that call.

    The compiled code is kept in the package's ``__pycache__``, or in the user's cache folder where the package is
    read-only (NUMBA_CACHE_DIR names another place). If neither can be written, each process compiles for itself.
    """
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache
        return numba.njit(nogil=True)(function)
