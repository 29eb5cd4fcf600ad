# SPDX-License-Identifier: GPL-3.0-or-later
"""What the AD9361 family can be set to, as its Linux driver allows it: an AD9361 unless a name says otherwise.

Frequencies are in Hz, gains in dB.

One place for both sides: the virtual Pluto refuses what a real one would, and programs check before they ask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """All multiples of ``step`` above ``low``, up to ``high``."""

    low: float
    step: float
    high: float
    unit: str = ""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def clamp(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def nearest(self, value: float) -> float:
        """The value that the device will have, if ``value`` is within the range."""
        return self.low + self.step * math.floor((value - self.low) / self.step + 0.5)

    def check(self, name: str, value: float) -> float:
        number = float(value)
        if not (math.isfinite(number) and number in self):
            unit = f" {self.unit}" if self.unit else ""
            raise ValueError(f"{name} must be from {self.low:.12g} to {self.high:.12g}{unit}, got {value!r}")
        return number


# With its filter (FIR) on; without it, the converters' slowest rate is the limit.
SAMPLE_RATE_HZ = Range(25e6 / 48, 1, 61_440_000, "Hz")
SAMPLE_RATE_WITHOUT_FIR_HZ = Range(25e6 / 12, 1, 61_440_000, "Hz")
RX_LO_HZ = Range(70_000_000, 1, 6_000_000_000, "Hz")
TX_LO_HZ = Range(46_875_001, 1, 6_000_000_000, "Hz")
RX_BANDWIDTH_HZ = Range(200_000, 1, 56_000_000, "Hz")
TX_BANDWIDTH_HZ = Range(200_000, 1, 40_000_000, "Hz")
AD9363A_LO_HZ = Range(325_000_000, 1, 3_800_000_000, "Hz")
AD9363A_BANDWIDTH_HZ = 20_000_000  # the widest RF bandwidth that the driver sets, whatever is asked for
TX_GAIN_DB = Range(-89.75, 0.25, 0.0, "dB")
GAIN_MODES = ("manual", "fast_attack", "slow_attack", "hybrid")
RX_FULL_SCALE = 2048
TX_FULL_SCALE = 32768
XO_HZ = Range(39_992_000, 1, 40_008_000, "Hz")


@dataclass(frozen=True)
class Chip:
    """What the driver takes the transceiver for. A Pluto is sold with an AD9363A.

    Its owner may tell the firmware to take it for an AD9364 (``fw_setenv attr_name compatible``, ``fw_setenv attr_val
    ad9364``): the driver then allows what an AD9364 can do.
    """

    name: str  # as in the context's attribute "ad9361-phy,model"
    rx_lo_hz: Range
    tx_lo_hz: Range
    widest_bandwidth_hz: float


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("ad9363a", AD9363A_LO_HZ, AD9363A_LO_HZ, AD9363A_BANDWIDTH_HZ),
        Chip("ad9364", RX_LO_HZ, TX_LO_HZ, RX_BANDWIDTH_HZ.high),
    )
}

# Up to which frequency of the oscillator each of the receiver's gain tables holds.
_RX_GAINS = (
    (1.3e9, Range(-1, 1, 73, "dB")),
    (4.0e9, Range(-3, 1, 71, "dB")),
    (math.inf, Range(-10, 1, 62, "dB")),
)


def rx_gain_db(rx_lo_hz: float) -> Range:
    return next(gains for below, gains in _RX_GAINS if rx_lo_hz <= below)


def synthesised_hz(wanted_hz: float) -> int:
    """What the fractional synthesiser makes of a frequency, in whole Hz as it is read back: off by 3 Hz at most.

    Its oscillator runs at 6 to 12 GHz in steps of 80 MHz / 8,388,593, and is divided by a power of two.
    """
    divider = 1
    while wanted_hz * divider < 6e9:
        divider *= 2
    step = 80e6 / 8_388_593 / divider
    return math.floor(round(wanted_hz / step) * step + 1e-6)
