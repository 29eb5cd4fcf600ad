# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast does each client's crystal run in round t?

A constant of its own, and a random walk of one step a round (a round counts as a second). The steps are drawn by round,
so that the rate in round t is the same whatever was asked before; a sum over the rounds is kept, for speed alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.settings import AirSettings
from fl_app.core.streams import stream
from oac_blocks.dsp.channel.multiple_access import MAX_PPM


class Clocks:
    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self._walk_ppm, self._seed = settings.clock_walk_ppm, seed
        self._walked = [np.linspace(-settings.clock_ppm, settings.clock_ppm, n_clients)]

    def ppm(self, t: int) -> npt.NDArray[np.float64]:
        """Rate errors (n_clients,) at the beginning of round t."""
        if self._walk_ppm == 0:
            return self._walked[0]
        while len(self._walked) <= t:
            step = stream(self._seed, "air clock walk", len(self._walked)).standard_normal(len(self._walked[0]))
            walked = self._walked[-1] + self._walk_ppm * step
            self._walked.append(np.clip(walked, -MAX_PPM, MAX_PPM))
        return self._walked[t]
