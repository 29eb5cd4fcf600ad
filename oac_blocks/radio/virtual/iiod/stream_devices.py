# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices with buffers: ``cf-ad9361-lpc`` receives, ``cf-ad9361-dds-core-lpc`` transmits and has generators."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.iiod import texts
from oac_blocks.radio.virtual.iiod.attributes import Attribute, Channel, Device, refuse
from oac_blocks.radio.virtual.iiod.registers import Registers
from oac_blocks.radio.virtual.iiod.settings import RadioSettings, Tone
from oac_blocks.radio.virtual.iiod.texts import Texts

_SYNC_WORDS = ("disarm", "arm")
_BIAS = Range(-32_768, 1, 32_767)
_CALIBRATION = Range(-1.999999, 1e-6, 1.999999)  # range of a register with a sign bit, a whole bit and 14 fraction bits
_WATERMARK = Range(1, 1, 1 << 24)
_TONE_NAMES = ("TX1_I_F1", "TX1_I_F2", "TX1_Q_F1", "TX1_Q_F2")


class StreamDevices:
    """A device with a buffer. ``changed`` is called after each write that took effect."""

    def __init__(self, settings: RadioSettings, kept: Texts, changed: Callable[[], None]) -> None:
        self.settings = settings
        self._texts, self._changed = kept, changed
        self.rx_registers, self.tx_registers = Registers(), Registers()
        self.rx, self.tx = self._rx(), self._tx()

    def _rx(self) -> Device:
        device = Device("iio:device4", "cf-ad9361-lpc")
        for index in range(2):
            channel = Channel(f"voltage{index}", output=False, scan=(index, "le:S12/16>>0"))
            file = f"in_voltage{index}_"
            channel.add(Attribute("calibbias", file + "calibbias", *self._texts.whole(file + "bias", 0, _BIAS)))
            self._calibrations(channel, file)
            channel.add(Attribute("samples_pps", "in_voltage_samples_pps", lambda: refuse(errno.ENODEV)))
            for attribute in self._fpga_rate("in_voltage", "rx_decimation"):
                channel.add(attribute)
            device.channels.append(channel)
        device.attributes["sync_start_enable"] = Attribute(
            "sync_start_enable", "sync_start_enable", *self._texts.choice("rx sync_start_enable", _SYNC_WORDS)
        )
        device.debug["direct_reg_access"] = self.rx_registers.attribute()
        self._buffer_attributes(device, "rx")
        return device

    def _tx(self) -> Device:
        device = Device("iio:device3", "cf-ad9361-dds-core-lpc")
        for index in range(2):
            channel = Channel(f"voltage{index}", output=True, scan=(index, "le:S16/16>>0"))
            self._calibrations(channel, f"out_voltage{index}_")
            for attribute in self._fpga_rate("out_voltage", "tx_interpolation"):
                channel.add(attribute)
            device.channels.append(channel)
        for index, name in enumerate(_TONE_NAMES):
            device.channels.append(self._tone(index, name))
        device.attributes["sync_start_enable"] = Attribute(
            "sync_start_enable", "sync_start_enable", *self._texts.choice("tx sync_start_enable", _SYNC_WORDS)
        )
        device.debug["direct_reg_access"] = self.tx_registers.attribute()
        self._buffer_attributes(device, "tx")
        return device

    def _buffer_attributes(self, device: Device, which: str) -> None:
        watermark = self._texts.whole(f"{which} watermark", 2048, _WATERMARK)
        for name, read, write in (
            ("data_available", texts.constant("0"), None),
            ("length_align_bytes", texts.constant("8"), None),
            ("watermark", *watermark),
        ):
            device.buffer[name] = Attribute(name, name, read, write)

    def _calibrations(self, channel: Channel, file: str) -> None:
        for name, default in (("calibphase", 0.0), ("calibscale", 1.0)):
            pair = self._texts.fraction(file + name, default, _CALIBRATION)
            channel.add(Attribute(name, file + name, *pair))

    def _fpga_rate(self, prefix: str, field_: str) -> Sequence[Attribute]:
        """The filter by 8 behind the chip; it is on if the slower one of two rates is chosen."""

        def rates() -> tuple[int, int]:
            return self.settings.sample_rate_hz, self.settings.sample_rate_hz // 8

        def write(text: str) -> None:
            rate = texts.integer(text)
            if rate not in rates():
                refuse()
            self._set(field_, 1 if rate == rates()[0] else 8)

        return (
            Attribute(
                "sampling_frequency",
                f"{prefix}_sampling_frequency",
                lambda: str(rates()[0 if getattr(self.settings, field_) == 1 else 1]),
                write,
            ),
            Attribute(
                "sampling_frequency_available",
                f"{prefix}_sampling_frequency_available",
                lambda: "{} {} ".format(*rates()),
            ),
        )

    def _tone(self, index: int, name: str) -> Channel:
        channel = Channel(f"altvoltage{index}", output=True, name=name)
        tone = self.settings.tones[index]
        file = f"out_altvoltage{index}_{name}_"

        def write_frequency(text: str) -> None:
            hertz = texts.integer(text)
            if not 0 <= hertz <= self.settings.sample_rate_hz // 2:
                refuse()
            self._set_tone(tone, "frequency_hz", _tone_step(hertz, self.settings.sample_rate_hz))

        def write_phase(text: str) -> None:
            millidegrees = texts.integer(text)
            if not 0 <= millidegrees <= 360_000:
                refuse()
            self._set_tone(tone, "phase_degrees", millidegrees / 1000)

        def write_scale(text: str) -> None:
            scale = texts.decimal(text)
            if not 0 <= scale <= 1:
                refuse()
            self._set_tone(tone, "scale", round(scale, 6))

        for attribute, read, write in (
            ("frequency", lambda: str(round(tone.frequency_hz)), write_frequency),
            ("phase", lambda: str(round(1000 * tone.phase_degrees)), write_phase),
            ("raw", lambda: str(int(self.settings.tones_on)), self._write_tones_on),
            ("scale", lambda: f"{tone.scale:.6f}", write_scale),
        ):
            channel.add(Attribute(attribute, file + attribute, read, write))
        for shared in self._fpga_rate("out_altvoltage", "tx_interpolation"):
            channel.add(shared)
        return channel

    def _set(self, name: str, value: object) -> None:
        setattr(self.settings, name, value)
        self._changed()

    def _set_tone(self, tone: Tone, name: str, value: float) -> None:
        setattr(tone, name, value)
        self._changed()

    def _write_tones_on(self, text: str) -> None:
        self._set("tones_on", bool(texts.integer(text)))


def _tone_step(hertz: int, sample_rate_hz: int) -> float:
    """Return the frequency that a generator makes: it counts in 1/65,536 of a turn a sample."""
    return round(hertz / sample_rate_hz * 65_536) * sample_rate_hz / 65_536
