# SPDX-License-Identifier: GPL-3.0-or-later
"""Control the clients' transmit gains, so that all clients have the same mean power at the server.

The control is slow, because it should not follow fading. A client's power at gain 0 dB is averaged over rounds as a
power (in Rayleigh fading a mean of dB values would be 2.5 dB too low). Gains move towards the value that brings all
clients to the target, by a bounded step per round, and stay unchanged near it.
"""

from __future__ import annotations

import math

from oac_blocks.loop.states import LoopSettings

_DEAD_BAND_DB = 0.5


class PowerControl:
    """Gain control of one client."""

    def __init__(self, settings: LoopSettings, gain_db: float = 0.0) -> None:
        self._settings = settings
        self.gain_db = self._within(gain_db)
        self._mean = 0.0
        self._rounds = 0

    @property
    def path_db(self) -> float:
        """Return the mean power at the server for a gain of 0 dB; NaN before the first measurement."""
        return 10 * math.log10(self._mean) if self._mean > 0 else math.nan

    def heard(self, power_db: float, gain_used_db: float) -> None:
        """Take a measured power and the gain with which it was sent."""
        if not math.isfinite(power_db):
            return
        self._rounds = min(self._rounds + 1, self._settings.power_rounds)
        self._mean += (10 ** ((power_db - gain_used_db) / 10) - self._mean) / self._rounds

    def towards(self, target_db: float) -> None:
        """Move the gain one step towards the value at which the mean power is the target."""
        if not self._settings.power_control:
            self.gain_db = self._within(0.0)
            return
        if not (math.isfinite(target_db) and self._mean > 0):
            return
        error = self._within(target_db - self.path_db) - self.gain_db
        if abs(error) > _DEAD_BAND_DB:
            step = self._settings.gain_step_db
            self.gain_db = self._within(self.gain_db + min(max(error, -step), step))

    def _within(self, gain_db: float) -> float:
        return min(max(gain_db, self._settings.least_gain_db), self._settings.largest_gain_db)
