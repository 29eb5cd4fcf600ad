# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile a function to machine code that releases Python's lock, and keep the result on the disk.

Only modules of kernels import this one, and these are imported where a kernel is called: numba takes half a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

Kernel = Callable[..., Any]
# What the compiler may do with floats: fuse products with sums, and add in any order, so that it finds vector
# instructions. NaN and infinity stay what they are, and a division by zero gives them.
_FLOATS: dict[str, Any] = {"fastmath": {"arcp", "contract", "nsz", "reassoc"}, "error_model": "numpy"}


def compiled(function: Kernel) -> Kernel:
    """Compile a function at its first call, for the types of that call.

    The compiled code is kept in the package's ``__pycache__``, or in the user's cache folder where the package is
    read-only (NUMBA_CACHE_DIR names another place). If neither can be written, each process compiles for itself.
    """
    return _compile(function)


def stream_kernel(signature: str) -> Callable[[Kernel], Kernel]:
    """Compile a function of floats for these types at once, because a stream cannot wait for it in its first chunk."""

    def compile_now(function: Kernel) -> Kernel:
        return _compile(function, signature, **_FLOATS)

    return compile_now


def _compile(function: Kernel, *signature: str, **options: Any) -> Kernel:
    jit: Callable[..., Callable[[Kernel], Kernel]] = numba.njit
    try:
        return jit(*signature, nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba found no folder for its cache
        return jit(*signature, nogil=True, **options)(function)
