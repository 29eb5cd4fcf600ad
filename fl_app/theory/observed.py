# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch an air during a run: how large gradient entries are, and how much noise comes with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.core.server import Server
from oac_blocks.dsp.checks import require


class ObservedAir(Air):
    """Pass everything on to another air, and compare what it delivers with what a perfect channel would.

    Attributes
    ----------
    server : Server
        The run's server, whose selection says which entries a round carries; set before the first round.
    """

    server: Server

    def __init__(self, inner: Air) -> None:
        self.inner, self.scheme = inner, inner.scheme
        self._wanted = self._air_noise = self._changes = 0.0
        self._entries = self._pairs = self._rounds = 0
        self._seconds = 0.0
        self._last: npt.NDArray[np.float32] | None = None

    def open(self) -> None:
        self.inner.open()

    def close(self) -> None:
        self.inner.close()

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self.inner.load_state(state)

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        got = self.inner.uplink(payload, clients, t)
        if t > 0 and not isinstance(payload, Unseen) and got.heard.size:  # round 0 sends all entries
            perfect = self.scheme.combine(payload[np.isin(clients, got.heard)])
            self._take(perfect.astype(np.float64), got)
        return got

    def _take(self, perfect: npt.NDArray[np.float64], got: Uplink) -> None:
        selected = self.server.selected
        self._rounds += 1
        self._seconds += got.air_seconds
        self._entries += perfect.size
        self._wanted += float(np.sum(perfect**2))
        self._air_noise += float(np.sum((got.received - perfect) ** 2))
        now = np.full(self.server.d, np.nan, np.float32)
        now[selected] = perfect
        if self._last is not None:
            change = now - self._last  # NaN unless an entry was sent in both rounds
            both = np.isfinite(change)
            self._pairs += int(np.count_nonzero(both))
            self._changes += float(np.sum(change[both].astype(np.float64) ** 2))
        self._last = now

    @property
    def air_noise_power(self) -> float:
        """Return the mean square of what the air adds to an entry."""
        return self._air_noise / self._seen()

    @property
    def batch_noise_power(self) -> float:
        """Return the mean square of what random batches add to an entry: half the change from round to round."""
        return 0.5 * self._changes / self._pairs if self._pairs else 0.0

    @property
    def gradient_power(self) -> float:
        """Return the mean square of the entries that were sent, without the batches' noise."""
        return max(self._wanted / self._seen() - self.batch_noise_power, 0.0)

    @property
    def air_seconds(self) -> float:
        """Return the time on the air of a round."""
        self._seen()
        return self._seconds / self._rounds

    def _seen(self) -> int:
        require(self._entries > 0, "rounds", self._rounds, "at least one after round 0, with payloads known here")
        return self._entries
