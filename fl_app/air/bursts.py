# SPDX-License-Identifier: GPL-3.0-or-later
"""How many entries go into a burst, and how long may a burst be? A longer payload goes out as several bursts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from fl_app.air.settings import AirSettings
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.frame import FrameLayout

_TIMING_SIGMAS = 4  # of the arrival's jitter must stay inside the prefix as well
_LARGEST_TURN_RAD = 0.5  # of a client's phase over an analog burst, by its residual frequency: cos(0.5) = 0.88


@dataclass(frozen=True)
class Burst:
    """Entries ``first`` to ``stop`` of the payload, and the frame that carries them."""

    first: int
    stop: int
    layout: FrameLayout

    @property
    def entries(self) -> slice:
        return slice(self.first, self.stop)

    def __len__(self) -> int:
        return self.stop - self.first


def early_samples(settings: AirSettings) -> int:
    """How far into the prefix the server puts its FFT window: a third is for early clients, the rest for late ones.

    A burst that comes up to this much early, or up to the rest of the prefix less the channel's echoes late, is seen
    whole.
    """
    return settings.cp_samples // 3


def longest_burst_symbols(settings: AirSettings) -> int:
    """Symbols of the longest burst, sync symbols included, that these clocks allow.

    Calibration aligns the middle of the burst, so a clock that is off moves the burst's ends by half its drift over
    the burst; that and the jitter must fit before the FFT window (behind it there is twice the room, for echoes too).
    With a coherent scheme the client's residual frequency, too, may turn its phase only so far.
    """
    symbols = settings.max_burst_symbols
    room = early_samples(settings) - _TIMING_SIGMAS * settings.timing_sigma_samples
    # A prefix that holds not even the jitter cannot be helped by shorter bursts.
    room = max(room, early_samples(settings) / 4)
    num = settings.numerology()
    if settings.clock_ppm > 0:
        symbols = min(symbols, math.floor(2 * room / (1e-6 * settings.clock_ppm) / num.symbol_samples))
    if settings.scheme.coherent and settings.cfo_residual_hz > 0:
        longest_seconds = _LARGEST_TURN_RAD / (2 * math.pi * settings.cfo_residual_hz)
        symbols = min(symbols, math.floor(longest_seconds / num.symbol_seconds))
    return max(symbols, settings.groups + 1)


def plan(k: int, settings: AirSettings) -> list[Burst]:
    """The bursts that carry k entries one after the other, as equal as can be."""
    k, num = integer("k", k, 1), settings.numerology()
    payload_symbols = longest_burst_symbols(settings) - settings.groups
    capacity = max(1, payload_symbols * settings.scheme.entries_per_symbol(num) // settings.repeats)
    n_bursts = -(-k // capacity)
    edges = [k * i // n_bursts for i in range(n_bursts + 1)]
    return [Burst(first, stop, layout(stop - first, settings)) for first, stop in pairwise(edges)]


def air_time(bursts: list[Burst]) -> tuple[int, float]:
    """Symbols, sync symbols included, and seconds that the bursts take on the air."""
    return sum(burst.layout.symbols for burst in bursts), sum(burst.layout.seconds for burst in bursts)


def layout(k: int, settings: AirSettings) -> FrameLayout:
    """The frame that carries k entries."""
    num = settings.numerology()
    return FrameLayout(settings.scheme.symbols_needed(k, num, settings.repeats), num, settings.groups)
