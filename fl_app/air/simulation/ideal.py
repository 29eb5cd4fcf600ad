# SPDX-License-Identifier: GPL-3.0-or-later
"""Add up the payloads exactly, as a perfect channel would; symbols, air time and ties are as in other airs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen, Uplink
from fl_app.air.bursts import air_time, plan
from fl_app.air.simulation.simulated import SimulatedAir
from fl_app.air.votes import decide_ties
from fl_app.core.streams import stream


class IdealAir(SimulatedAir):
    """Deliver the scheme's result for a perfect sum: the sum of the votes (a coin decides a tie), or the mean entry."""

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        received = self.scheme.combine(values)
        if self.scheme.decides:
            received = decide_ties(received, values, stream(self.seed, "air ties", t))
        return Uplink(received, clients, *air_time(plan(values.shape[1], self.settings)))
