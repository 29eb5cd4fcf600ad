# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers that both transports, threads and flowgraphs, have alike. docs/decisions.md has the reasons."""

from __future__ import annotations

import math

from oac_blocks.dsp.waveform.numerology import Numerology

RADIO_RATE_HZ = 2.5e6  # samples a second: the highest rate that a stock Pluto sustains over USB 2 in both directions
RX_GAIN_DB = 40.0
TX_GAIN_DB = -30.0  # 0 is full power; a start that overloads no receiver at arm's length
AMPLITUDE = 0.1  # amplitude of a subcarrier, where full scale is 1: the peaks of 192 subcarriers reach 0.3
TRIGGER_AMPLITUDE = 0.5  # RMS, where full scale is 1: the peaks of the trigger reach 0.71
CRYSTAL_PPM = 20.0  # largest error of a radio's crystal
BURST_SYMBOLS = 228  # payload symbols in a burst: 21,888 votes with the published waveform (its prototype sent 21,880)
_LARGEST_CFO_RAD = 1.5  # per sample: beyond it the trigger's spectrum leaves the receiver's band


def max_cfo_rad(frequency_hz: float, sample_rate_hz: float, crystal_ppm: float = CRYSTAL_PPM) -> float:
    """Return the largest carrier frequency offset that a client searches, in rad/sample.

    Server and client may each be off by ``crystal_ppm``, in opposite directions.
    """
    offset_hz = 2 * 1e-6 * crystal_ppm * frequency_hz
    return min(_LARGEST_CFO_RAD, 2 * math.pi * offset_hz / sample_rate_hz)


def burst_votes(num: Numerology, repeats: int) -> int:
    """Return the most votes that a burst carries, each on ``repeats`` pairs of subcarriers."""
    return max(1, BURST_SYMBOLS * num.votes_per_symbol // repeats)
