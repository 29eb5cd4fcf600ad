# SPDX-License-Identifier: GPL-3.0-or-later
"""How loud should each client be? Alike at the server in the mean, and slowly: fading is not to be followed.

A client's mean power at gain 0 dB is averaged over rounds as a power (in Rayleigh fading a mean of dB would be 2.5 dB
low). Gains go to what brings all to the target, by a bounded step a round, and stay where they are near it.
"""

from __future__ import annotations

import math

from oac_blocks.loop.states import LoopSettings

_DEAD_BAND_DB = 0.5


class PowerControl:
    """The gain of one client."""

    def __init__(self, settings: LoopSettings, gain_db: float = 0.0) -> None:
        self._settings = settings
        self.gain_db = self._within(gain_db)
        self._mean = 0.0
        self._rounds = 0

    @property
    def path_db(self) -> float:
        """Mean power at the server if the gain were 0 dB; NaN before anything was heard."""
        return 10 * math.log10(self._mean) if self._mean > 0 else math.nan

    def heard(self, power_db: float, gain_used_db: float) -> None:
        if not math.isfinite(power_db):
            return
        self._rounds = min(self._rounds + 1, self._settings.power_rounds)
        self._mean += (10 ** ((power_db - gain_used_db) / 10) - self._mean) / self._rounds

    def towards(self, target_db: float) -> None:
        """One step of the gain to where the mean power would be the target."""
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
