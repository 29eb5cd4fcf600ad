# SPDX-License-Identifier: GPL-3.0-or-later
"""A device's registers: an address alone selects what the next read shows, an address and a value write it."""

from __future__ import annotations

import errno

from oac_blocks.radio.virtual.attributes import Attribute, refuse

STATUS_REGISTER = 0x80000088
TX_UNDERFLOW, RX_OVERFLOW = 1, 4  # bits in it
_MOST_REGISTERS = 4096


class Registers:
    def __init__(self) -> None:
        self.status = 0  # of under- and overflow: a one that is written clears
        self._values: dict[int, int] = {}
        self._at = 0

    def attribute(self) -> Attribute:
        return Attribute("direct_reg_access", "direct_reg_access", self._read, self._write)

    def _read(self) -> str:
        value = self.status if self._at == STATUS_REGISTER else self._values.get(self._at, 0)
        return f"0x{value:X}"

    def _write(self, text: str) -> None:
        try:
            numbers = [int(word, 0) for word in text.replace("\0", "").split()]
        except ValueError:
            refuse()
        if len(numbers) not in (1, 2) or not all(0 <= number < 1 << 32 for number in numbers):
            refuse()
        self._at = numbers[0]
        if len(numbers) == 2:
            self._set(*numbers)

    def _set(self, at: int, value: int) -> None:
        if at == STATUS_REGISTER:
            self.status &= ~value
        elif at in self._values or len(self._values) < _MOST_REGISTERS:
            self._values[at] = value
        else:
            refuse(errno.ENOMEM)
