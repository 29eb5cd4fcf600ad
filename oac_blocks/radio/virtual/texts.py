# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes are text: numbers and words in and out, with the kernel's idea of what is one."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Sequence

from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.attributes import refuse

Read = Callable[[], str]
Write = Callable[[str], None]
_MOST_TEXT = 1 << 16
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}(\.[0-9]*)?\s*")
_DECIMAL = re.compile(r"\s*[+-]?[0-9]{1,9}(\.[0-9]{0,9})?\s*(dB)?\s*")


class Texts:
    """Values that are kept as they were written, and have no effect."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def stored(self, key: str, default: str) -> tuple[Read, Write]:
        def write(text: str) -> None:
            if len(text) > _MOST_TEXT:
                refuse(errno.E2BIG)
            self._kept[key] = text.strip()

        return (lambda: self._kept.get(key, default)), write

    def choice(self, key: str, allowed: Sequence[str]) -> tuple[Read, Write]:
        read, write = self.stored(key, allowed[0])
        return read, lambda text: write(text) if text.strip() in allowed else refuse()

    def switch(self, key: str) -> tuple[Read, Write]:
        read, write = self.stored(key, "1")
        return read, lambda text: write(str(int(boolean(text))))


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
    word = text.replace("\0", "").strip().lower()
    if word in ("1", "y", "yes", "on", "true"):
        return True
    return False if word in ("0", "n", "no", "off", "false") else refuse()


def within(allowed: Range, value: int) -> int:
    return value if value in allowed else refuse()
