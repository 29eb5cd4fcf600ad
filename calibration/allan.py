# SPDX-License-Identifier: GPL-3.0-or-later
"""How steady is a clock? Its Allan deviation, from readings of its phase that may have holes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import real, require

Floats = npt.NDArray[np.float64]
_LEAST_TRIPLES = 4


def allan_deviation(phase_seconds: npt.ArrayLike, interval_seconds: float) -> tuple[Floats, Floats]:
    """Averaging times in seconds, powers of two of the interval, and the overlapping Allan deviation at each.

    ``phase_seconds`` is how far the clock is ahead at equally spaced times; NaN where it was not read. A time that too
    few readings reach is left out.
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
