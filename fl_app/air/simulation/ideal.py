# SPDX-License-Identifier: GPL-3.0-or-later
"""The air that adds up exactly: what training would be with a perfect channel. Symbols and air time count as usual."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen, Uplink
from fl_app.air.bursts import air_time, plan
from fl_app.air.simulation.simulated import SimulatedAir


class IdealAir(SimulatedAir):
    """Delivers what the scheme makes of a perfect sum: the sum of the votes, the mean entry."""

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        return Uplink(self.scheme.combine(values), clients, *air_time(plan(values.shape[1], self.settings)))
