# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide the base of the airs that need no radio: settings, a seed and the check of the input, but no state.

Every draw is named by the seed, its purpose, the round and the client. So a round is the same whatever was sent
before, and a resumed run has nothing to restore.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Air, Unseen
from fl_app.air.payload import check_payload
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.checks import integer


class SimulatedAir(Air):
    """Simulate an air without state: it opens nothing and remembers nothing."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self.settings, self.scheme = settings, settings.scheme
        self.n_clients, self.seed = integer("n_clients", n_clients, 1), integer("seed", seed, 0)

    def check(
        self, payload: npt.ArrayLike | Unseen, clients: npt.ArrayLike, t: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return payload and client numbers as arrays; ValueError if an argument is not allowed."""
        return check_payload(payload, clients, t, self.scheme, self.n_clients)
