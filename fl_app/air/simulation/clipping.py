# SPDX-License-Identifier: GPL-3.0-or-later
"""Cutting off what only an impulse of noise can be: a limit at a multiple of the median magnitude.

The median does not move with the impulses, unlike a mean square, which with heavy-tailed noise does not even exist.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def clip_entries(received: npt.NDArray[np.float32], level: float | None) -> npt.NDArray[np.float32]:
    """Entries cut at ``level`` times their median magnitude; ``None`` leaves them alone."""
    if level is None:
        return received
    limit = level * float(np.median(np.abs(received)))
    # A median of zero (nearly all abstained, no noise) says nothing about what is large.
    return received.clip(-limit, limit) if limit > 0 else received


def limit_samples(samples: npt.NDArray[np.complex64], level: float | None) -> npt.NDArray[np.complex64]:
    """Samples cut at ``level`` times their median magnitude, their phase kept; ``None`` leaves them alone."""
    if level is None:
        return samples
    magnitude = np.abs(samples)
    limit = level * float(np.median(magnitude))
    if limit <= 0:
        return samples
    return samples * (limit / np.maximum(magnitude, np.float32(limit))).astype(np.float32)
