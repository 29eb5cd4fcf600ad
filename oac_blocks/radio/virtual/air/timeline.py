# SPDX-License-Identifier: GPL-3.0-or-later
"""The samples of a stream and the times that the radio's own crystal shows at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Timeline:
    """Sample ``first`` is taken at ``own_seconds``, and ``rate_hz`` samples in each of the radio's own seconds."""

    rate_hz: float
    first: int = 0
    own_seconds: float = 0.0

    def own(self, samples: npt.ArrayLike) -> Floats:
        return self.own_seconds + (np.asarray(samples, np.float64) - self.first) / self.rate_hz

    def samples(self, own_seconds: npt.ArrayLike) -> Floats:
        return self.first + (np.asarray(own_seconds, np.float64) - self.own_seconds) * self.rate_hz

    def own_at(self, sample: float) -> float:
        return self.own_seconds + (sample - self.first) / self.rate_hz

    def sample_at(self, own_seconds: float) -> float:
        return self.first + (own_seconds - self.own_seconds) * self.rate_hz

    def changed(self, rate_hz: float, at: int) -> Timeline:
        """Return the timeline that goes on at another rate from this sample on."""
        return Timeline(rate_hz, at, self.own_at(at))
