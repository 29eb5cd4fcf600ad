# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the shared air and their times, as lines of a schedule or of the console.

    [TIME] unplug RADIO [SECONDS]            gone, and back after a while if that is said
    [TIME] plug RADIO
    [TIME] underflow RADIO [SAMPLES]         a gap in its transmit stream
    [TIME] overflow RADIO                    a gap in its receive stream
    [TIME] clock RADIO PPM                   its crystal's rate changes by so much, for good
    [TIME] fade FROM TO DB SECONDS           so much less on the way from one radio to another; * is any
    [TIME] interferer RADIO HZ DB SECONDS    a tone so far from its centre, DB of its receiver's full scale at 0 dB gain

TIME is in seconds of the air; without it, now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast, get_args

from oac_blocks.dsp.checks import require

Kind = Literal["unplug", "plug", "underflow", "overflow", "clock", "fade", "interferer"]
KINDS: tuple[str, ...] = get_args(Kind)
_DEFAULT_GAP_SAMPLES = 1000
_LARGEST_GAP_SAMPLES = 1 << 22
_ANY = -1


@dataclass(frozen=True)
class RadioFault:
    """A fault of one radio, or of the way between two. What ``value`` means depends on ``kind``; see the module."""

    kind: Kind
    at_seconds: float | None = None  # None: now
    radio: int = 0
    to: int = _ANY  # receiver of a fade
    value: float = 0.0  # samples, ppm or dB
    hertz: float = 0.0
    seconds: float = math.inf

    def holds(self, at: float, sender: int, receiver: int) -> bool:
        """Return whether this fade is active at this time between these two radios."""
        start = self.at_seconds or 0.0
        return start <= at < start + self.seconds and self.radio in (_ANY, sender) and self.to in (_ANY, receiver)


def parse_fault(line: str, radios: int) -> RadioFault:
    """Return the fault that a line describes. Raise ValueError if it describes none."""
    words = line.split()
    at: float | None = None
    if words and _is_number(words[0]):
        at = float(words.pop(0))
        require(0 <= at < 1e9, "time of a fault", at, "0 or later")
    require(bool(words), "fault", repr(line), f"one of {', '.join(KINDS)}")
    kind, rest = words[0], words[1:]
    require(kind in KINDS, "fault", repr(kind), f"one of {', '.join(KINDS)}")
    fewest, most = {
        "unplug": (1, 2), "plug": (1, 1), "underflow": (1, 2), "overflow": (1, 1), "clock": (2, 2), "fade": (4, 4),
        "interferer": (4, 4),
    }[kind]  # fmt: skip
    require(fewest <= len(rest) <= most, f"fault {kind}", f"{len(rest)} values", f"given {fewest} to {most} values")
    fixed = cast(Kind, kind)
    radio = _radio(rest[0], radios, any_=kind == "fade")
    if kind == "unplug":
        return RadioFault(fixed, at, radio, seconds=_number(rest[1], 0.0) if len(rest) > 1 else math.inf)
    if kind == "underflow":
        samples = _number(rest[1], 1, _LARGEST_GAP_SAMPLES) if len(rest) > 1 else _DEFAULT_GAP_SAMPLES
        return RadioFault(fixed, at, radio, value=samples)
    if kind == "clock":
        return RadioFault(fixed, at, radio, value=_number(rest[1], -1000, 1000))
    if kind == "fade":
        to = _radio(rest[1], radios, any_=True)
        return RadioFault(fixed, at, radio, to, _number(rest[2], 0, 300), seconds=_number(rest[3], 0))
    if kind == "interferer":
        hertz, level, seconds = _number(rest[1]), _number(rest[2], -300, 100), _number(rest[3], 0)
        return RadioFault(fixed, at, radio, value=level, hertz=hertz, seconds=seconds)
    return RadioFault(fixed, at, radio)


def _radio(word: str, radios: int, any_: bool) -> int:
    if any_ and word == "*":
        return _ANY
    sound = word.isascii() and word.isdigit() and len(word) < 9 and int(word) < radios
    require(sound, "radio", repr(word), f"from 0 to {radios - 1}")
    return int(word)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _number(word: str, low: float = -1e12, high: float = 1e12) -> float:
    require(_is_number(word), "value of a fault", repr(word), "a number")
    number = float(word)
    require(low <= number <= high, "value of a fault", word, f"from {low:g} to {high:g}")
    return number
