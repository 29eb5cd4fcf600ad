# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the error of received entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.probes import Probe

_LEAST_ERROR_DB = -200.0  # dB for a pair that is equal; float32 ends near -140 dB


class entry_probe(Probe):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Entry probe: measures the error of received entries against a reference, in dB of the reference's energy.

    Message ports ``entries`` and ``reference`` take PDUs of float32. Two PDUs form a pair if they have the same
    ``round`` in their metadata; PDUs without a round are paired in the order of arrival. The output is one float for
    each pair, 10 log10 of the squared error over the squared reference. Message port ``error`` sends a dictionary for
    each pair with ``round`` (if there is one), ``error_db`` and ``mean_error_db`` since the start or the last
    ``reset``.
    """

    def __init__(self) -> None:
        Probe.__init__(self, "OAC Entry Probe", "entries", np.float32, np.float32, "error")
        self.reset()

    @property
    def mean_error_db(self) -> float:
        """Return the squared error of all bursts over the squared reference in dB; NaN before the first pair."""
        error, energy = self._totals
        return _ratio_db(error, energy) if energy else float("nan")

    def reset(self) -> None:
        """Restart the mean."""
        self._totals = (0.0, 0.0)

    def compare(self, received: npt.NDArray[Any], reference: npt.NDArray[Any]) -> tuple[float, pdus.Metadata] | str:
        if len(received) != len(reference):
            return f"cannot compare {len(received)} entries with {len(reference)}"
        wanted = reference.astype(np.float64)
        error, energy = float(np.sum((received - wanted) ** 2)), float(np.sum(wanted**2))
        if not (math.isfinite(error) and math.isfinite(energy) and energy > 0):
            return f"cannot compare entries whose squares sum to {energy}, with an error of {error}"
        self._totals = (self._totals[0] + error, self._totals[1] + energy)
        value = _ratio_db(error, energy)
        return value, {"error_db": value, "mean_error_db": self.mean_error_db}


def _ratio_db(error: float, energy: float) -> float:
    return max(10 * math.log10(error / energy), _LEAST_ERROR_DB) if error > 0 else _LEAST_ERROR_DB
