# SPDX-License-Identifier: GPL-3.0-or-later
"""Clip values that only an impulse of noise can explain, at a multiple of the median magnitude.

The impulses do not move the median. They do move a mean square, which does not even exist for heavy-tailed noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def clip_entries(received: npt.NDArray[np.float32], level: float | None) -> npt.NDArray[np.float32]:
    """Clip entries at ``level`` times their median magnitude; ``None`` leaves them unchanged."""
    if level is None:
        return received
    limit = level * float(np.median(np.abs(received)))
    # A median of zero (nearly all clients abstained, no noise) does not show which values are large.
    return received.clip(-limit, limit) if limit > 0 else received


def limit_samples(samples: npt.NDArray[np.complex64], level: float | None) -> npt.NDArray[np.complex64]:
    """Clip samples at ``level`` times their median magnitude and keep their phase; ``None`` leaves them unchanged."""
    if level is None:
        return samples
    magnitude = np.abs(samples)
    limit = level * float(np.median(magnitude))
    if limit <= 0:
        return samples
    return samples * (limit / np.maximum(magnitude, np.float32(limit))).astype(np.float32)
