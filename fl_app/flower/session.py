# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the server's part of a training over the air: the server of Algorithm 1, and the air. This needs no Flower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.air.base import Air, Uplink
from fl_app.air.make import make_air
from fl_app.config import Settings
from fl_app.flower.layout import Arrays, Layout
from fl_app.flower.order import RoundOrder, packed
from fl_app.runs.prepare import Objects, make_server
from fl_app.runs.run import LOST_ROUNDS_ALLOWED, TrainingError
from oac_blocks.dsp.waveform.schemes import name_of_scheme


class AirSession:
    """Order payloads for each round, and turn those that arrive into the next model.

    Parameters
    ----------
    settings
        Settings of the run: seed, server, selection and air.
    objects
        A policy or an air that a program gives, in place of those that the settings name.
    arrays
        The first model.
    beside
        Patterns of the names of arrays that go beside the air.
    local_lr
        The clients' learning rate, by which they divide their change.
    """

    def __init__(
        self, settings: Settings, objects: Objects, arrays: Arrays, beside: Sequence[str], local_lr: float
    ) -> None:
        self.settings, self._objects, self._local_lr = settings, objects, local_lr
        self.layout = Layout.of(arrays, beside)
        self.server = make_server(settings, self.layout.vector(arrays), objects.policy)
        self.air: Air | None = None
        self.n_clients = 0
        self.lost_in_a_row = 0

    def order(self, arrays: Arrays, t: int) -> RoundOrder:
        """Take the model that the strategy broadcasts in round t, and return what clients are asked for."""
        self.server.w = self.layout.vector(arrays)
        return RoundOrder(
            t=t,
            seed=self.settings.run.seed,
            client=0,
            scheme=name_of_scheme(self.settings.air.scheme),
            local_lr=self._local_lr,
            abstain_below=self.settings.clients.abstain_below,
            names=list(self.layout.names),
            selected=packed(self.server.selected, self.server.d),
        )

    def open(self, n_clients: int) -> None:
        """Make the air for clients 0 to n_clients - 1, and open it."""
        self.n_clients = n_clients
        self.air = make_air(self.settings.air, n_clients, self.settings.run.seed, own=self._objects.air)
        self.air.open()

    def close(self) -> None:
        """Close the air."""
        if self.air is not None:
            self.air.close()

    def deliver(self, payloads: Mapping[int, NDArray[Any]], t: int) -> Uplink | None:
        """Send the payloads of round t over the air, each by its client's number, and update the server.

        Returns
        -------
        Uplink or None
            What the server received; None if it has no update, so that the model stays as it is.

        Raises
        ------
        TrainingError
            If several rounds in a row brought no update.
        """
        numbers = sorted(payloads)
        uplink = None
        if numbers:
            assert self.air is not None, "open() comes first"
            uplink = self.air.uplink(np.stack([payloads[n] for n in numbers]), np.array(numbers, np.int64), t)
        if self.server.receive(None if uplink is None else uplink.of_someone(), t):
            self.lost_in_a_row = 0
            return uplink
        self.lost_in_a_row += 1
        if self.lost_in_a_row == LOST_ROUNDS_ALLOWED:
            raise TrainingError(
                f"{LOST_ROUNDS_ALLOWED} rounds in a row, up to round {t + 1}, brought no finite update: the training "
                "has diverged, or no client was heard; see the lines above for errors of the clients, and try a "
                f"smaller learning rate for the clients, or a smaller lr of OverTheAir than {self.settings.server.lr}"
            )
        return None

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays on the air of the model after the last round."""
        return self.layout.cut(self.server.w)
