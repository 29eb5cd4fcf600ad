# SPDX-License-Identifier: GPL-3.0-or-later
"""What the AD9361 family of transceivers can be set to, as its Linux driver allows it.

The numbers are those of an AD9361 unless a name says otherwise. Frequencies are in Hz, gains in dB. Both sides use this
module: the driver of the Pluto, and the virtual Pluto, which refuses what a real one refuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from oac_blocks.radio.limits import RadioLimits, Range

# The lowest rate needs the chip's own filter (FIR). Without the filter the slowest rate of the converters is the limit.
SAMPLE_RATE_HZ = Range(25e6 / 48, 1, 61_440_000, "Hz")
SAMPLE_RATE_WITHOUT_FIR_HZ = Range(25e6 / 12, 1, 61_440_000, "Hz")
RX_LO_HZ = Range(70_000_000, 1, 6_000_000_000, "Hz")
TX_LO_HZ = Range(46_875_001, 1, 6_000_000_000, "Hz")
RX_BANDWIDTH_HZ = Range(200_000, 1, 56_000_000, "Hz")
TX_BANDWIDTH_HZ = Range(200_000, 1, 40_000_000, "Hz")
AD9363A_LO_HZ = Range(325_000_000, 1, 3_800_000_000, "Hz")
AD9363A_BANDWIDTH_HZ = 20_000_000  # the widest RF bandwidth that the Linux driver sets, even if asked for more
TX_GAIN_DB = Range(-89.75, 0.25, 0.0, "dB")
GAIN_MODES = ("manual", "fast_attack", "slow_attack", "hybrid")
RX_FULL_SCALE = 2048
TX_FULL_SCALE = 32768
XO_HZ = Range(39_992_000, 1, 40_008_000, "Hz")


@dataclass(frozen=True)
class Chip:
    """The model that the Linux driver takes the transceiver for. A Pluto is sold with an AD9363A.

    The owner of a Pluto can tell the firmware to take it for an AD9364 (``fw_setenv attr_name compatible``,
    ``fw_setenv attr_val ad9364``). The Linux driver then allows what an AD9364 can do.
    """

    name: str  # the value of the context's attribute "ad9361-phy,model"
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

# The receiver has three gain tables. Each holds up to the oscillator frequency that stands beside it.
_RX_GAINS = (
    (1.3e9, Range(-1, 1, 73, "dB")),
    (4.0e9, Range(-3, 1, 71, "dB")),
    (math.inf, Range(-10, 1, 62, "dB")),
)


def rx_gain_db(rx_lo_hz: float) -> Range:
    """Return the range of the receiver's gain when its oscillator runs at ``rx_lo_hz``."""
    return next(gains for below, gains in _RX_GAINS if rx_lo_hz <= below)


LIMITS = RadioLimits(
    sample_rate_hz=SAMPLE_RATE_HZ,
    rx_lo_hz=RX_LO_HZ,
    tx_lo_hz=TX_LO_HZ,
    rx_bandwidth_hz=RX_BANDWIDTH_HZ,
    tx_bandwidth_hz=TX_BANDWIDTH_HZ,
    rx_gain_db=rx_gain_db,
    tx_gain_db=TX_GAIN_DB,
)


def synthesised_hz(wanted_hz: float) -> int:
    """Return the frequency that the fractional synthesiser makes, in whole Hz as it is read back.

    It differs from the wanted one by at most 3 Hz. The synthesiser's oscillator runs at 6 to 12 GHz in steps of
    80 MHz / 8,388,593, and its output is divided by a power of two.
    """
    divider = 1
    while wanted_hz * divider < 6e9:
        divider *= 2
    step = 80e6 / 8_388_593 / divider
    return math.floor(round(wanted_hz / step) * step + 1e-6)
