# SPDX-License-Identifier: GPL-3.0-or-later
"""The IIO context of a Pluto: five devices over one set of settings."""

from __future__ import annotations

from collections.abc import Callable

from oac_blocks.radio import ad9361
from oac_blocks.radio.ad9361 import Chip
from oac_blocks.radio.virtual.iiod.attributes import Context
from oac_blocks.radio.virtual.iiod.board import adm1177, xadc
from oac_blocks.radio.virtual.iiod.settings import RadioSettings
from oac_blocks.radio.virtual.iiod.stream_devices import StreamDevices
from oac_blocks.radio.virtual.iiod.texts import Texts
from oac_blocks.radio.virtual.iiod.transceiver import Sensors, Transceiver


class PlutoContext:
    """A Pluto's context. ``changed`` is called after each write that took effect."""

    def __init__(
        self,
        uri: str = "ip:127.0.0.1",
        serial: str = "0" * 34,
        sensors: Sensors | None = None,
        changed: Callable[[], None] = lambda: None,
        chip: Chip = ad9361.CHIPS["ad9364"],
    ) -> None:
        self.settings = RadioSettings()
        self.sensors = Sensors() if sensors is None else sensors
        self.changed = changed
        kept = Texts()
        self.phy = Transceiver(self.settings, self.sensors, kept, changed, chip).device
        streams = StreamDevices(self.settings, kept, changed)
        self.rx, self.tx = streams.rx, streams.tx
        self.rx_registers, self.tx_registers = streams.rx_registers, streams.tx_registers
        self.context = Context(
            f"{uri.removeprefix('ip:')} Linux (none) 5.15.0 #1 SMP PREEMPT armv7l",
            {
                "hw_model": f"Analog Devices PlutoSDR Rev.B (Z7010-{chip.name.upper()})",
                "hw_model_variant": "0",
                "hw_serial": serial,
                "fw_version": "v0.38",
                "ad9361-phy,xo_correction": str(self.settings.xo_hz),
                "ad9361-phy,model": chip.name,
                "local,kernel": "5.15.0",
                "uri": uri,
            },
            [adm1177(), self.phy, xadc(lambda: self.sensors.temperature_millidegrees()), self.tx, self.rx],
        )
