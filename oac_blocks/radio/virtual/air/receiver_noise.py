# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise of a receiver: white over the band of its samples or of its RF filter, whichever is narrower."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.front_end import FrontEnd
from oac_blocks.radio.virtual.air.feeder import TAPS, filtered, low_pass

Samples = npt.NDArray[np.complex64]


class ReceiverNoise:
    """The noise of one receiver, from its own seed. It does not depend on how the stream is cut into pieces."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._source = FrontEnd(seed)
        self._latest = np.zeros(TAPS - 1, np.complex64)  # latest noise before the filter

    def add(self, x: Samples, density: float, bandwidth_hz: float, rate_hz: float) -> None:
        """Add noise of this density (power in a Hz) to samples taken at ``rate_hz`` behind a filter of this width."""
        if not density:
            return
        if bandwidth_hz >= rate_hz:
            self._source.add_gaussian(x, density * rate_hz)
            return
        white = np.zeros(len(self._latest) + len(x), np.complex64)
        white[: len(self._latest)] = self._latest
        self._source.add_gaussian(white[len(self._latest) :], density * rate_hz)
        self._latest = white[-len(self._latest) :].copy()
        x += filtered(white, low_pass(bandwidth_hz / rate_hz))
