# SPDX-License-Identifier: GPL-3.0-or-later
"""Find gaps in a stream, where tags show that samples are missing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pmt

OVERFLOW_TAGS = ("overflow", "rx_overflow")
TIME_TAG = "rx_time"  # (whole seconds, fraction) of the sample that carries it, the format of GNU Radio's radios


class StreamGaps:
    """Find gaps from the tags of one stream."""

    def __init__(self, sample_rate_hz: float) -> None:
        self._sample_rate_hz = sample_rate_hz
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._known: tuple[int, int, float] | None = None  # a sample index and its time in seconds: whole, fraction

    def find(self, first: int, tags: Iterable[Any]) -> list[tuple[int, str]]:
        """Return the samples at which a gap ends, with the reason; indices count as in the tags, from ``first`` on."""
        gaps: dict[int, str] = {}
        for tag in sorted(tags, key=lambda tag: tag.offset):
            name = pmt.symbol_to_string(tag.key)
            if name in OVERFLOW_TAGS:
                gaps[tag.offset] = f"tag {name}"
            elif name == TIME_TAG and (missing := self._missing(tag)) is not None:
                gaps[tag.offset] = f"tag {name}: {missing:.0f} samples are missing"
        return [(max(at, first), reason) for at, reason in gaps.items()]

    def _missing(self, tag: Any) -> float | None:
        """Return how many samples are missing before this one; None if none are or if no time is known yet."""
        time = pmt.to_python(tag.value)
        numbers = isinstance(time, tuple) and len(time) == 2 and all(isinstance(part, int | float) for part in time)
        if not numbers or not all(math.isfinite(part) for part in time):
            return None
        last, self._known = self._known, (tag.offset, int(time[0]), float(time[1]))
        if last is None:
            return None
        seconds = (self._known[1] - last[1]) + (self._known[2] - last[2])
        missing = seconds * self._sample_rate_hz - (tag.offset - last[0])
        return missing if abs(missing) > 0.5 else None
