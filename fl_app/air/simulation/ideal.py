# SPDX-License-Identifier: GPL-3.0-or-later
"""Add up the payloads exactly, as a perfect channel would; symbols and air time count as in other airs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen, Uplink
from fl_app.air.bursts import air_time, plan
from fl_app.air.simulation.simulated import SimulatedAir


class IdealAir(SimulatedAir):
    """Deliver the scheme's result for a perfect sum: the sum of the votes, or the mean entry."""

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        return Uplink(self.scheme.combine(values), clients, *air_time(plan(values.shape[1], self.settings)))
