# SPDX-License-Identifier: GPL-3.0-or-later
"""The board's own converters ``adm1177`` and ``xadc``, which programs list and hardly ever read."""

from __future__ import annotations

from collections.abc import Callable

from oac_blocks.radio.virtual.iiod.attributes import Attribute, Channel, Device
from oac_blocks.radio.virtual.iiod.texts import constant


def adm1177() -> Device:
    device = Device("iio:device0", "adm1177")
    for id_, raw, scale in (("voltage0", "776", "6.433105468"), ("current0", "858", "0.516601562")):
        channel = Channel(id_, output=False)
        channel.add(Attribute("raw", f"in_{id_}_raw", constant(raw)))
        channel.add(Attribute("scale", f"in_{id_}_scale", constant(scale)))
        device.channels.append(channel)
    return device


def xadc(temperature_millidegrees: Callable[[], int]) -> Device:
    device = Device("iio:device2", "xadc")
    temperature = Channel("temp0", output=False)

    def raw() -> str:  # in the chip's own counts: degrees = (raw - 2219) * 0.12304
        return str(round(temperature_millidegrees() / 123.040771484) + 2219)

    temperature.add(Attribute("offset", "in_temp0_offset", constant("-2219")))
    temperature.add(Attribute("raw", "in_temp0_raw", raw))
    temperature.add(Attribute("scale", "in_temp0_scale", constant("123.040771484")))
    device.channels.append(temperature)
    for index, (name, value) in enumerate((("vccint", "1370"), ("vccaux", "2458"))):
        channel = Channel(f"voltage{index}", output=False, name=name)
        channel.add(Attribute("raw", f"in_voltage{index}_{name}_raw", constant(value)))
        channel.add(Attribute("scale", f"in_voltage{index}_{name}_scale", constant("0.732421875")))
        device.channels.append(channel)
    return device
