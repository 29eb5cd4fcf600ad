# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the Allan deviation of a clock from phase readings that may have holes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import real, require

Floats = npt.NDArray[np.float64]
_LEAST_TRIPLES = 4


def allan_deviation(phase_seconds: npt.ArrayLike, interval_seconds: float) -> tuple[Floats, Floats]:
    """Return averaging times in seconds and the overlapping Allan deviation at each.

    The averaging times are the interval times powers of two. ``phase_seconds`` is the lead of the clock at equally
    spaced times, NaN for a missing reading. An averaging time with too few readings is left out.
    """
    phase = np.asarray(phase_seconds, np.float64)
    require(phase.ndim == 1, "phase_seconds", f"shape {phase.shape}", "one-dimensional")
    interval = real("interval_seconds", interval_seconds, 0.0, open_low=True)
    times, deviations = [], []
    m = 1
    while 2 * m < len(phase):
        second_difference = phase[2 * m :] - 2 * phase[m:-m] + phase[: -2 * m]
        known = second_difference[np.isfinite(second_difference)]
        if len(known) >= _LEAST_TRIPLES:
            times.append(m * interval)
            deviations.append(np.sqrt(np.mean(known**2) / 2) / (m * interval))
        m *= 2
    return np.array(times), np.array(deviations)
