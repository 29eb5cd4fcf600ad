# SPDX-License-Identifier: GPL-3.0-or-later
"""The receiver's gain, as set or under automatic control, and the RSSI that the chip derives from it.

Levels are powers in dB of full scale at a gain of 0 dB, as they are at the antenna.
"""

from __future__ import annotations

import math

from oac_blocks.radio.limits import Range

# Power behind the gain, in dB of full scale, that automatic gain control aims at: half way between the driver's inner
# thresholds (agc-inner-thresh-low and -high, 12 and 10 dB below full scale).
AIM_DB = -11.0
SILENCE_DB = -200.0
UPDATE_SECONDS = 1e-3  # between two gain steps of the slow control (the driver's agc-gain-update-interval-us)
_DEAD_ZONE_DB = 0.7  # dB: more than the half step by which whole gains may be off, and less than 1
_POWER_ON_GAIN_DB = 71
# RSSI counts down from a signal that would be 11.5 dB above full scale at a gain of 0 dB. At the lowest steps of the
# low-noise amplifier the driver's gain table names 3 dB less than they have, and RSSI counts with the table (attribute
# rssi_gain_step_error): there a signal seems 3 dB stronger than it is.
RSSI_REFERENCE_DB = 11.5
_LOWEST_STEP_BELOW_DB, _LOWEST_STEP_ERROR_DB = 3, 3.0
_LARGEST_RSSI_DB = 127.75


class GainControl:
    """The gain of a receiver. It follows the level of a stream block by block, and that of the air without a stream."""

    def __init__(self) -> None:
        self.gain_db = _POWER_ON_GAIN_DB
        self.level_db = SILENCE_DB  # level of what was heard last
        self._window_seconds = self._window_energy = 0.0  # time and energy since the last update
        self._until_update = UPDATE_SECONDS

    def step(self, power: float, seconds: float, mode: str, manual_db: int, allowed: Range) -> float:
        """Take one block of a stream and return the gain for it, as a factor.

        Parameters
        ----------
        power
            Mean power of the block at the antenna.
        seconds
            Duration of the block.
        mode
            One of ``ad9361.GAIN_MODES``. ``fast_attack`` settles within a block, the others by steps of
            ``UPDATE_SECONDS``; ``hybrid`` is ``slow_attack``, since no pin of a Pluto freezes it.
        manual_db
            The gain in mode ``manual``.
        allowed
            The gain table's range.
        """
        self.level_db = decibels(power)
        if mode == "manual":
            self.gain_db = manual_db
            return _factor(manual_db)
        self.gain_db = int(allowed.clamp(self.gain_db))
        if mode == "fast_attack":
            self.gain_db = settled_db(self.gain_db, self.level_db, mode, allowed, seconds)
            return _factor(self.gain_db)
        gain_db = self.gain_db
        self._window_seconds += seconds
        self._window_energy += power * seconds
        self._until_update -= seconds
        if self._until_update <= 0:
            late = -self._until_update
            mean_db = decibels(self._window_energy / self._window_seconds)
            self.gain_db = settled_db(gain_db, mean_db, mode, allowed, UPDATE_SECONDS + late)
            self._window_seconds = self._window_energy = 0.0
            self._until_update = UPDATE_SECONDS - late % UPDATE_SECONDS
        return _factor(gain_db)

    def wait(self, power: float, seconds: float, mode: str, manual_db: int, allowed: Range) -> None:
        """Let time pass without a stream, with this power at the antenna."""
        self.level_db = decibels(power)
        if mode == "manual":
            self.gain_db = manual_db
        else:
            self.gain_db = settled_db(self.gain_db, self.level_db, mode, allowed, seconds)


def settled_db(gain_db: int, level_db: float, mode: str, allowed: Range, seconds: float) -> int:
    """Return the gain that automatic control has after so much time at a constant level."""
    gain = int(allowed.clamp(gain_db))
    if mode == "fast_attack":
        off = AIM_DB - level_db - gain
        return int(allowed.clamp(gain + round(off))) if abs(off) > _DEAD_ZONE_DB else gain
    steps = int(min(seconds / UPDATE_SECONDS, allowed.high - allowed.low))
    for _ in range(steps):
        off = AIM_DB - level_db - gain
        if abs(off) <= _DEAD_ZONE_DB:
            break
        # Half of what is missing: the chip, too, takes larger steps when it is far from its thresholds.
        gain = int(allowed.clamp(gain + math.copysign(max(1, round(abs(off) / 2)), off)))
    return gain


def rssi_db(level_db: float, gain_db: int) -> float:
    """Return what the chip counts, in quarters of a dB: how far the level is below ``RSSI_REFERENCE_DB``."""
    error = _LOWEST_STEP_ERROR_DB if gain_db < _LOWEST_STEP_BELOW_DB else 0.0
    return round(min(max(RSSI_REFERENCE_DB - level_db - error, 0.0), _LARGEST_RSSI_DB) * 4) / 4


def decibels(power: float) -> float:
    return 10 * math.log10(max(power, 10 ** (SILENCE_DB / 10)))


def _factor(gain_db: float) -> float:
    return float(10 ** (gain_db / 20))
