# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes are text: read and print numbers and words by the kernel's rules."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.iiod.attributes import refuse

Read = Callable[[], str]
Write = Callable[[str], None]
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}(\.[0-9]*)?\s*")
_DECIMAL = re.compile(r"\s*[+-]?[0-9]{1,9}(\.[0-9]{0,9})?\s*(dB)?\s*")


class Texts:
    """Values without an effect: they are checked, kept, and read back as the driver prints them."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def choice(self, key: str, allowed: Sequence[str]) -> tuple[Read, Write]:
        """Return the functions of a value that is one of these words; it begins as the first one."""

        def kept(text: str) -> str:
            word = plain(text)
            return word if word in allowed else refuse()

        return self._pair(key, allowed[0], kept)

    def switch(self, key: str, on: bool = True) -> tuple[Read, Write]:
        return self._pair(key, str(int(on)), lambda text: str(int(boolean(text))))

    def whole(self, key: str, default: int, allowed: Range) -> tuple[Read, Write]:
        return self._pair(key, str(default), lambda text: str(within(allowed, integer(text))))

    def fraction(self, key: str, default: float, allowed: Range) -> tuple[Read, Write]:
        def kept(text: str) -> str:
            value = decimal(text)
            return f"{value:.6f}" if value in allowed else refuse()

        return self._pair(key, f"{default:.6f}", kept)

    def numbers(self, key: str, *allowed: Range) -> tuple[Read, Write]:
        """Return the functions of a row of whole numbers, at most one for each range; the first one is read back."""

        def kept(text: str) -> str:
            words = plain(text).split()
            if not 1 <= len(words) <= len(allowed):
                refuse()
            values = [within(range_, integer(word)) for range_, word in zip(allowed, words, strict=False)]
            return str(values[0])

        return self._pair(key, "0", kept)

    def _pair(self, key: str, default: str, kept: Callable[[str], str]) -> tuple[Read, Write]:
        def write(text: str) -> None:
            self._kept[key] = kept(text)

        return (lambda: self._kept.get(key, default)), write


def plain(text: str) -> str:
    """Return the text without the white space and zero bytes that clients put around it."""
    return text.replace("\0", "").strip()


def constant(text: str) -> Callable[[], str]:
    return lambda: text


def available(allowed: Range) -> str:
    return f"[{math.floor(allowed.low)} {allowed.step:g} {math.floor(allowed.high)}]"


def integer(text: str) -> int:
    text = text.replace("\0", "")
    return math.trunc(float(text)) if "." in text and _INTEGER.fullmatch(text) else _whole(text)


def _whole(text: str) -> int:
    return int(text) if _INTEGER.fullmatch(text) else refuse()


def decimal(text: str) -> float:
    text = text.replace("\0", "")
    return float(text.replace("dB", "")) if _DECIMAL.fullmatch(text) else refuse()


def boolean(text: str) -> bool:
    word = plain(text).lower()
    if word in ("1", "y", "yes", "on", "true"):
        return True
    return False if word in ("0", "n", "no", "off", "false") else refuse()


def within(allowed: Range, value: int) -> int:
    return value if value in allowed else refuse()
