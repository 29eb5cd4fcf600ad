# SPDX-License-Identifier: GPL-3.0-or-later
"""Output a histogram of the values of the last PDUs."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.plot_vectors import VectorOfPdu
from oac_blocks.dsp.checks import finite, integer, real, require


class recent_histogram(VectorOfPdu):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Recent histogram: outputs the share of the last PDUs' values in each of ``bins`` equal bins.

    Message port ``pdus`` takes PDUs of float32, such as soft votes. For each PDU the output is a vector with the share
    of the values in each bin, over the last ``window`` PDUs. A value outside ``low`` to ``high`` counts only in the
    total. Each vector is written twice, because GNU Radio's vector sink needs it.

    This block replaces the histogram sink of GNU Radio 3.10, which adds up all PDUs since the start once its window has
    been faster than the flowgraph: it switches accumulation on for one PDU and then never off again.
    """

    def __init__(self, bins: int = 80, low: float = -6.0, high: float = 6.0, window: int = 25) -> None:
        self._bins = integer("bins", bins, 2, 65_536)
        low, high = real("low", low), real("high", high)
        require(low < high, "low", low, f"less than high = {high}")
        self._range = (low, high)
        VectorOfPdu.__init__(self, "OAC Recent Histogram", self._bins)
        self._recent: deque[tuple[npt.NDArray[np.int64], int]] = deque()
        self.set_window(window)

    def set_window(self, window: int) -> None:
        """Set the number of PDUs that the histogram covers."""
        self._recent = deque(self._recent, maxlen=integer("window", window, 1, 10_000))

    def start(self) -> bool:
        self._recent.clear()
        return True

    def vector_of(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        finite("data", values)
        self._recent.append((np.histogram(values, self._bins, self._range)[0], len(values)))
        counts, totals = zip(*self._recent, strict=True)
        return (np.sum(counts, axis=0) / sum(totals)).astype(np.float32)
