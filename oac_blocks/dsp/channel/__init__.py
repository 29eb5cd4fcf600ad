# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the channel: fading, noise, clocks and resampling, for whole bursts and for endless streams."""

from oac_blocks.dsp.channel.crystal import Crystal, CrystalSettings
from oac_blocks.dsp.channel.multiple_access import (
    Link,
    Receiver,
    Reception,
    clock_rates_ppm,
    draw_impulse_responses,
    positions,
    positions_at,
    shift,
    transmit,
)
from oac_blocks.dsp.checks import MAX_PPM

__all__ = [
    "MAX_PPM",
    "Crystal",
    "CrystalSettings",
    "Link",
    "Receiver",
    "Reception",
    "clock_rates_ppm",
    "draw_impulse_responses",
    "positions",
    "positions_at",
    "shift",
    "transmit",
]
