# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the rate error of each client's crystal in round t.

The law is that of ``oac_blocks.dsp.channel.crystal``, in steps of one round, which counts as one second. The random
numbers are drawn by round, so that the rate in round t does not depend on what was asked before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_app.air.settings import AirSettings
from fl_app.core.streams import stream
from oac_blocks.dsp.channel.crystal import walk_path_ppm

ROUND_SECONDS = 1.0  # seconds from round to round


class RoundClocks:
    """Hold the crystals of all clients, round by round."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self._walk_ppm, self._seed = settings.clock_walk_ppm, seed
        self._walked = [np.linspace(-settings.clock_ppm, settings.clock_ppm, n_clients)]

    def ppm(self, t: int) -> npt.NDArray[np.float64]:
        """Return the rate errors (n_clients,) in ppm at the beginning of round t."""
        if self._walk_ppm == 0:
            return self._walked[0]
        while len(self._walked) <= t:
            normals = stream(self._seed, "air clock walk", len(self._walked)).standard_normal(len(self._walked[0]))
            path = walk_path_ppm(self._walked[-1], self._walk_ppm, ROUND_SECONDS, normals[:, None])
            self._walked.append(path[:, 1])
        return self._walked[t]
