# SPDX-License-Identifier: GPL-3.0-or-later
"""A device's registers. An address alone selects what the next read shows; an address and a value write it."""

from __future__ import annotations

import errno

from oac_blocks.radio import ad9361
from oac_blocks.radio.virtual.iiod.attributes import Attribute, refuse
from oac_blocks.radio.virtual.iiod.settings import RadioSettings

STATUS_REGISTER = 0x80000088
TX_UNDERFLOW, RX_OVERFLOW = 1, 4  # bits of the status register
_MOST_REGISTERS = 4096
_VERSION_REGISTER, _CORE_VERSION = 0, 0x90162  # version of the FPGA's cores, as a Pluto reports it

# Registers of the chip (UG-671).
_ENSM_STATE, _PRODUCT_ID, _TX_ATTENUATION, _TX_ATTENUATION_HIGH = 0x017, 0x037, 0x073, 0x074
_CLOCK_LOCKED, _RX_LO_LOCKED, _TX_LO_LOCKED = 0x05E, 0x247, 0x287
_ENSM_STATES = {"sleep": 0x0, "wait": 0x0, "alert": 0x5}  # all other modes are 0xA, FDD
_CHIP_ADDRESSES = 0x3FF


class Registers:
    """The registers of an FPGA core: a status, and values that are kept as they are written."""

    def __init__(self) -> None:
        self.status = 0  # underflow and overflow bits; writing a 1 clears a bit
        self._values: dict[int, int] = {}
        self._at = 0

    def attribute(self) -> Attribute:
        return Attribute("direct_reg_access", "direct_reg_access", self._read, self._write)

    def _read(self) -> str:
        return f"0x{self._value(self._at):X}"

    def _value(self, at: int) -> int:
        if at == STATUS_REGISTER:
            return self.status
        return self._values.get(at, _CORE_VERSION if at == _VERSION_REGISTER else 0)

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


class ChipRegisters(Registers):
    """The transceiver's registers of 8 bits that programs read: its identity, its state, and its settings."""

    def __init__(self, settings: RadioSettings) -> None:
        super().__init__()
        self._settings = settings

    def _value(self, at: int) -> int:
        at &= _CHIP_ADDRESSES
        settings = self._settings
        attenuation = round(-settings.tx_gain_db / ad9361.TX_GAIN_DB.step)
        live = {
            _PRODUCT_ID: 0x0A,  # AD936x, revision 2; the same for the whole family
            _ENSM_STATE: 0x10 | _ENSM_STATES.get(settings.ensm_mode, 0xA),
            _CLOCK_LOCKED: 0x80,
            _RX_LO_LOCKED: 0x02 * settings.rx_lo_on,
            _TX_LO_LOCKED: 0x02 * settings.tx_lo_on,
            _TX_ATTENUATION: attenuation & 0xFF,
            _TX_ATTENUATION_HIGH: attenuation >> 8,
        }
        return live.get(at, self._values.get(at, 0))

    def _set(self, at: int, value: int) -> None:
        self._values[at & _CHIP_ADDRESSES] = value & 0xFF
