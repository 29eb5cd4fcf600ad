# SPDX-License-Identifier: GPL-3.0-or-later
"""Divide a payload into bursts: compute how long a burst may be and how many entries it carries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fl_app.air.pilots import residual_cfo_hz
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.numerology import Numerology

_TIMING_SIGMAS = 4  # standard deviations of the arrival jitter that must fit into the prefix as well
_LARGEST_TURN_RAD = 0.5  # largest phase rotation of a client over an analog burst by its residual CFO: cos(0.5) = 0.88


@dataclass(frozen=True)
class Burst:
    """Describe one burst: entries ``first`` to ``stop`` of the payload, and the frame that carries them."""

    first: int
    stop: int
    layout: FrameLayout

    @property
    def entries(self) -> slice:
        return slice(self.first, self.stop)

    def __len__(self) -> int:
        return self.stop - self.first


def early_samples(settings: AirSettings) -> int:
    """Return how many samples into the prefix the server puts its FFT window: a third of the prefix.

    That third is for early clients, the rest for late ones. The server sees a whole burst if it arrives early by no
    more than this, or late by no more than the rest of the prefix less the channel's delay spread.
    """
    return settings.cp_samples // 3


def longest_burst_symbols(settings: AirSettings) -> int:
    """Return the largest number of symbols of a burst, sync symbols included, that these clocks allow.

    Calibration aligns the middle of the burst. So a clock error moves the ends of the burst by half its drift over the
    burst. This drift and the jitter must fit before the FFT window (after it there is twice the room, for multipath
    too). In a coherent scheme, the client's residual frequency offset must not rotate its phase too far either.
    """
    symbols = settings.max_burst_symbols
    room = early_samples(settings) - _TIMING_SIGMAS * settings.timing_sigma_samples
    # If the prefix does not even hold the jitter, shorter bursts do not help.
    room = max(room, early_samples(settings) / 4)
    num = settings.numerology()
    if settings.clock_ppm > 0:
        symbols = min(symbols, math.floor(2 * room / (1e-6 * settings.clock_ppm) / num.symbol_samples))
    if settings.scheme.coherent and (cfo_hz := residual_cfo_hz(settings)) > 0:
        longest_seconds = _LARGEST_TURN_RAD / (2 * math.pi * cfo_hz)
        symbols = min(symbols, math.floor(longest_seconds / num.symbol_seconds))
    return max(symbols, settings.groups + 1)


def plan(k: int, settings: AirSettings) -> list[Burst]:
    """Return the bursts that carry k entries one after the other, with lengths as equal as possible."""
    k, num = integer("k", k, 1), settings.numerology()
    payload_symbols = longest_burst_symbols(settings) - settings.groups
    capacity = max(1, payload_symbols * settings.scheme.entries_per_symbol(num) // settings.repeats)
    n_bursts = -(-k // capacity)
    edges = [k * i // n_bursts for i in range(n_bursts + 1)]
    return [Burst(first, stop, layout(stop - first, settings)) for first, stop in pairwise(edges)]


def air_time(bursts: list[Burst]) -> tuple[int, float]:
    """Return the number of symbols, sync symbols included, and the seconds that the bursts take on the air."""
    return sum(burst.layout.symbols for burst in bursts), sum(burst.layout.seconds for burst in bursts)


def payload_times_samples(layout: FrameLayout, settings: AirSettings) -> npt.NDArray[np.float64]:
    """Return the samples from the beginning of a burst to the middle of the FFT window of each payload symbol."""
    num = layout.num
    window_middle = window_middle_samples(num, early_samples(settings))
    return np.flatnonzero(~layout.is_sync()) * num.symbol_samples + window_middle


def window_middle_samples(num: Numerology, early_samples: int) -> float:
    """Return the samples from the beginning of a symbol to the middle of the server's FFT window in it."""
    return num.cp_samples - early_samples + num.fft_size / 2


def layout(k: int, settings: AirSettings) -> FrameLayout:
    """Return the frame that carries k entries."""
    num = settings.numerology()
    return FrameLayout(settings.scheme.symbols_needed(k, num, settings.repeats), num, settings.groups)
