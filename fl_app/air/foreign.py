# SPDX-License-Identifier: GPL-3.0-or-later
"""Make an air of an object that has the method ``uplink`` alone, and check what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.payload import check_payload
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.waveform.schemes.registry import SCHEMES, name_of_scheme
from oac_blocks.plugins import PluginError


class ForeignAir(Air):
    """Ask an object for what the server receives.

    Its ``uplink(payload, clients, t)`` returns an `Uplink`, or the k received values alone: all clients then count as
    heard, and nothing is said about symbols and time on the air. Methods ``open``, ``close``, ``state`` and
    ``load_state`` are called where the object has them.
    """

    def __init__(self, own: Any, settings: AirSettings, n_clients: int, title: str) -> None:
        self._own, self._n_clients, self._title = own, n_clients, title
        self.scheme = settings.scheme
        named = SCHEMES.canonical(name_of_scheme(getattr(own, "scheme", self.scheme)))
        if named != self.scheme.name:
            raise PluginError(f"{title}: this air is for the scheme {named!r}, but [air] scheme = {self.scheme.name!r}")

    def open(self) -> None:
        if hasattr(self._own, "open"):
            self._own.open()

    def close(self) -> None:
        if hasattr(self._own, "close"):
            self._own.close()

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = check_payload(payload, clients, t, self.scheme, self._n_clients)
        answer = self._own.uplink(values, clients, t)
        if not isinstance(answer, Uplink):
            answer = Uplink(np.asarray(answer), clients, 0, 0.0)
        received = np.asarray(answer.received)
        if received.shape != values.shape[1:] or received.dtype.kind not in "fiu":
            raise PluginError(
                f"{self._title}: uplink() must return {values.shape[1]} numbers, not {received.dtype} of shape "
                f"{received.shape}"
            )
        return Uplink(**{**vars(answer), "received": received.astype(np.float32)})

    def state(self) -> dict[str, Any]:
        return self._own.state() if hasattr(self._own, "state") else {}

    def load_state(self, state: dict[str, Any]) -> None:
        if hasattr(self._own, "load_state"):
            self._own.load_state(state)
