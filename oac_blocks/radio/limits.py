# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranges of values that a radio can be set to. Each driver declares its own ``RadioLimits``.

Frequencies and rates are in Hz, gains in dB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The values ``low``, ``low + step``, and so on, up to ``high``."""

    low: float
    step: float
    high: float
    unit: str = ""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"from {self.low:.12g} to {self.high:.12g}{unit}"

    def clamp(self, value: float) -> float:
        """Return ``value``, or the end of the range that is nearest to it."""
        return min(max(value, self.low), self.high)

    def nearest(self, value: float) -> float:
        """Return the value that the device takes when it is set to ``value``, which lies within the range."""
        return self.low + self.step * math.floor((value - self.low) / self.step + 0.5)

    def check(self, name: str, value: float) -> float:
        """Return ``value`` as a float. Raise ValueError with ``name`` and the range if it lies outside."""
        number = float(value)
        if not (math.isfinite(number) and number in self):
            raise ValueError(f"{name} must be {self}, got {value!r}")
        return number


@dataclass(frozen=True)
class RadioLimits:
    """What the radios of one driver can be set to. ``RadioConfig.check`` compares a configuration with it."""

    sample_rate_hz: Range
    rx_lo_hz: Range
    tx_lo_hz: Range
    rx_bandwidth_hz: Range
    tx_bandwidth_hz: Range
    rx_gain_db: Callable[[float], Range]  # returns the range of gains at this frequency of the receiver's oscillator
    tx_gain_db: Range
