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
    """Analog: the mean entry. Onebit: the sum of the votes as soft vote."""

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        if self.mode == "onebit":
            received = values.sum(axis=0, dtype=np.int32).astype(np.float32)
        else:
            received = values.mean(axis=0, dtype=np.float64).astype(np.float32)
        return Uplink(received, clients, *air_time(plan(values.shape[1], self.settings)))
