# SPDX-License-Identifier: GPL-3.0-or-later
"""A Pluto's devices, channels and attributes, with the ranges, formats and errors of the kernel's driver."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oac_blocks.radio import limits
from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.attributes import Attribute, Channel, Context, Device, refuse
from oac_blocks.radio.virtual.path_rates import PathRates, path_rates
from oac_blocks.radio.virtual.settings import RadioSettings, Tone

STATUS_REGISTER = 0x80000088
TX_UNDERFLOW, RX_OVERFLOW = 1, 4  # bits in it
_MOST_REGISTERS = 4096
_MOST_TEXT = 1 << 16
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}(\.[0-9]*)?\s*")
_DECIMAL = re.compile(r"\s*[+-]?[0-9]{1,9}(\.[0-9]{0,9})?\s*(dB)?\s*")
_ENSM = ("sleep", "wait", "alert", "fdd", "pinctrl", "pinctrl_fdd_indep")
_CALIBRATIONS = ("auto", "manual", "manual_tx_quad", "tx_quad", "rf_dc_offs", "rssi_gain_step")
_RX_PORTS = (
    *("A_BALANCED", "B_BALANCED", "C_BALANCED", "A_N", "A_P", "B_N", "B_P", "C_N", "C_P"),
    *("TX_MONITOR1", "TX_MONITOR2", "TX_MONITOR1_2"),
)
_TX_PORTS = ("A", "B")
_GOVERNORS = ("nominal", "highest_osr")
_TONE_NAMES = ("TX1_I_F1", "TX1_I_F2", "TX1_Q_F1", "TX1_Q_F2")


@dataclass
class Sensors:
    """What the air knows and attributes show."""

    temperature_millidegrees: Callable[[], int] = lambda: 35_000
    rssi_db: Callable[[], float] = lambda: 110.0
    rx_gain_db: Callable[[], int] | None = None  # where automatic gain control has brought it


@dataclass
class Fir:
    enabled: bool = False
    rx_taps: int = 0
    rx_factor: int = 1
    tx_taps: int = 0
    tx_factor: int = 1


@dataclass
class PlutoContext:
    """A Pluto's settings and the tree of attributes through which they are read and written."""

    uri: str = "ip:127.0.0.1"
    serial: str = "0" * 34
    settings: RadioSettings = field(default_factory=RadioSettings)
    sensors: Sensors = field(default_factory=Sensors)
    changed: Callable[[], None] = lambda: None  # called after each write that took effect

    def __post_init__(self) -> None:
        self.fir = Fir()
        self.status = {"rx": 0, "tx": 0}  # the two devices' registers for under- and overflow
        self._texts: dict[str, str] = {}
        self._registers: dict[str, dict[int, int]] = {"phy": {}, "rx": {}, "tx": {}}
        self._register_at = {"phy": 0, "rx": 0, "tx": 0}
        self.phy, self.rx, self.tx = self._phy(), self._rx(), self._tx()
        self.context = Context(
            "127.0.0.1 Linux (none) 5.15.0 #1 SMP PREEMPT armv7l",
            {
                "hw_model": "Analog Devices PlutoSDR Rev.B (Z7010-AD9364)",
                "hw_model_variant": "0",
                "hw_serial": self.serial,
                "fw_version": "v0.38",
                "ad9361-phy,xo_correction": str(self.settings.xo_hz),
                "ad9361-phy,model": "ad9364",
                "local,kernel": "5.15.0",
                "uri": self.uri,
            },
            [self._adm1177(), self.phy, self._xadc(), self.tx, self.rx],
        )

    # The transceiver.

    def _phy(self) -> Device:
        device = Device("iio:device1", "ad9361-phy")
        device.channels = [
            self._oscillator(0, "RX_LO"),
            self._oscillator(1, "TX_LO"),
            self._phy_input(),
            self._phy_output(),
            *self._auxiliary(),
            Channel("temp0", output=False),
            Channel("out", output=False),
        ]
        device.channels[-2].add(
            Attribute("input", "in_temp0_input", lambda: str(self.sensors.temperature_millidegrees()))
        )
        fir = Attribute("voltage_filter_fir_en", "out_voltage_filter_fir_en", self._read_fir, self._write_fir)
        device.channels[-1].add(fir)
        for name, read, write in (
            ("calib_mode", *self._choice("calib_mode", _CALIBRATIONS)),
            ("calib_mode_available", _constant(" ".join(_CALIBRATIONS)), None),
            ("dcxo_tune_coarse", lambda: refuse(errno.ENODEV), None),
            ("dcxo_tune_coarse_available", _constant("[0 0 0]"), None),
            ("dcxo_tune_fine", lambda: refuse(errno.ENODEV), None),
            ("dcxo_tune_fine_available", _constant("[0 0 0]"), None),
            ("ensm_mode", lambda: self.settings.ensm_mode, self._write_ensm),
            ("ensm_mode_available", _constant(" ".join(_ENSM)), None),
            ("filter_fir_config", self._read_fir_config, self._write_fir_config),
            ("gain_table_config", self._read_gain_table, lambda _: refuse(errno.EPERM)),
            ("multichip_sync", None, lambda text: self._ignore(text)),
            ("rssi_gain_step_error", _constant("lna_error: 0 0 0 0\n"), None),
            ("rx_path_rates", lambda: self._rates().text("ADC", "R", "RXSAMP"), None),
            ("trx_rate_governor", *self._choice("trx_rate_governor", _GOVERNORS)),
            ("trx_rate_governor_available", _constant(" ".join(_GOVERNORS)), None),
            ("tx_path_rates", lambda: self._rates().text("DAC", "T", "TXSAMP"), None),
            ("xo_correction", lambda: str(self.settings.xo_hz), self._write_xo),
            ("xo_correction_available", _constant(_available(limits.XO_HZ)), None),
        ):
            device.attributes[name] = Attribute(name, name, read, write)
        for name in ("bist_tone", "bist_prbs", "bist_timing_analysis", "digital_tune", "initialize"):
            device.debug[name] = Attribute(name, name, *self._stored(f"debug {name}", "0"))
        device.debug["loopback"] = Attribute(
            "loopback", "loopback", lambda: str(self.settings.loopback), self._write_loopback
        )
        device.debug["direct_reg_access"] = self._register_access("phy")
        return device

    def _oscillator(self, index: int, name: str) -> Channel:
        channel = Channel(f"altvoltage{index}", output=True, name=name)
        file = f"out_altvoltage{index}_{name}_"
        field_, on = ("rx_lo_hz", "rx_lo_on") if index == 0 else ("tx_lo_hz", "tx_lo_on")
        allowed = limits.RX_LO_HZ if index == 0 else limits.TX_LO_HZ

        def write_frequency(text: str) -> None:
            self._set(field_, limits.synthesised_hz(_within(allowed, _integer(text))))

        def write_power(text: str) -> None:
            self._set(on, not _integer(text))

        for attribute, read, write in (
            ("external", *self._stored(file + "external", "0")),
            ("fastlock_load", *self._stored(file + "fastlock_load", "0")),
            ("fastlock_recall", lambda: refuse(), lambda _: refuse()),
            ("fastlock_save", *self._stored(file + "fastlock_save", "0 " + ",".join(["0"] * 16))),
            ("fastlock_store", *self._stored(file + "fastlock_store", "0")),
            ("frequency", lambda: str(getattr(self.settings, field_)), write_frequency),
            ("frequency_available", _constant(_available(allowed)), None),
            ("powerdown", lambda: str(int(not getattr(self.settings, on))), write_power),
        ):
            channel.add(Attribute(attribute, file + attribute, read, write))
        return channel

    def _phy_input(self) -> Channel:
        channel = Channel("voltage0", output=False)
        for name, read, write in (
            ("bb_dc_offset_tracking_en", *self._switch("bb_dc_offset_tracking_en")),
            ("filter_fir_en", self._read_fir, self._write_fir),
            ("gain_control_mode_available", _constant(" ".join(limits.GAIN_MODES)), None),
            ("quadrature_tracking_en", *self._switch("quadrature_tracking_en")),
            ("rf_bandwidth", *self._bandwidth("rx_bandwidth_hz", limits.RX_BANDWIDTH_HZ)),
            ("rf_bandwidth_available", _constant(_available(limits.RX_BANDWIDTH_HZ)), None),
            ("rf_dc_offset_tracking_en", *self._switch("rf_dc_offset_tracking_en")),
            ("rf_port_select_available", _constant(" ".join(_RX_PORTS)), None),
            ("sampling_frequency", self._read_rate, self._write_rate),
            ("sampling_frequency_available", self._rates_available, None),
        ):
            channel.add(Attribute(name, f"in_voltage_{name}", read, write))
        for name, read, write in (
            ("gain_control_mode", lambda: self.settings.gain_mode, self._write_gain_mode),
            ("hardwaregain", lambda: f"{self._rx_gain():.6f} dB", self._write_rx_gain),
            ("hardwaregain_available", lambda: _available(self._rx_gains()), None),
            ("rf_port_select", *self._choice("rx_port", _RX_PORTS)),
            ("rssi", lambda: f"{self.sensors.rssi_db():.2f} dB", None),
        ):
            channel.add(Attribute(name, f"in_voltage0_{name}", read, write))
        return channel

    def _phy_output(self) -> Channel:
        channel = Channel("voltage0", output=True)
        for name, read, write in (
            ("filter_fir_en", self._read_fir, self._write_fir),
            ("rf_bandwidth", *self._bandwidth("tx_bandwidth_hz", limits.TX_BANDWIDTH_HZ)),
            ("rf_bandwidth_available", _constant(_available(limits.TX_BANDWIDTH_HZ)), None),
            ("rf_port_select_available", _constant(" ".join(_TX_PORTS)), None),
            ("sampling_frequency", self._read_rate, self._write_rate),
            ("sampling_frequency_available", self._rates_available, None),
        ):
            channel.add(Attribute(name, f"out_voltage_{name}", read, write))
        gains = limits.TX_GAIN_DB
        for name, read, write in (
            ("hardwaregain", lambda: f"{self.settings.tx_gain_db:.6f} dB", self._write_tx_gain),
            ("hardwaregain_available", _constant(f"[{gains.low:.6f} {gains.step:.6f} {gains.high:.6f}]"), None),
            ("rf_port_select", *self._choice("tx_port", _TX_PORTS)),
            ("rssi", _constant("0.00 dB"), None),
        ):
            channel.add(Attribute(name, f"out_voltage0_{name}", read, write))
        return channel

    def _auxiliary(self) -> list[Channel]:
        """The chip's slow converters."""
        channels = []
        for id_, output, values in (
            ("voltage2", False, {"offset": "57", "raw": "1010", "scale": "0.305250"}),
            ("voltage2", True, {"raw": "306", "scale": "1.000000"}),
            ("voltage3", True, {"raw": "306", "scale": "1.000000"}),
        ):
            channel = Channel(id_, output)
            for name, value in values.items():
                file = f"{'out' if output else 'in'}_{id_}_{name}"
                channel.add(Attribute(name, file, *self._stored(file, value)))
            channels.append(channel)
        return channels

    # The two devices with buffers.

    def _rx(self) -> Device:
        device = Device("iio:device4", "cf-ad9361-lpc")
        for index in range(2):
            channel = Channel(f"voltage{index}", output=False, scan=(index, "le:S12/16>>0"))
            for name, default in (("calibbias", "0"), ("calibphase", "0.000000"), ("calibscale", "1.000000")):
                file = f"in_voltage{index}_{name}"
                channel.add(Attribute(name, file, *self._stored(file, default)))
            channel.add(Attribute("samples_pps", "in_voltage_samples_pps", lambda: refuse(errno.ENODEV)))
            for attribute in self._fpga_rate("in_voltage", "rx_decimation"):
                channel.add(attribute)
            device.channels.append(channel)
        device.attributes["sync_start_enable"] = Attribute(
            "sync_start_enable", "sync_start_enable", *self._stored("rx sync_start_enable", "disarm")
        )
        device.debug["direct_reg_access"] = self._register_access("rx")
        self._buffer_attributes(device, "rx")
        return device

    def _tx(self) -> Device:
        device = Device("iio:device3", "cf-ad9361-dds-core-lpc")
        for index in range(2):
            channel = Channel(f"voltage{index}", output=True, scan=(index, "le:S16/16>>0"))
            for name, default in (("calibphase", "0.000000"), ("calibscale", "1.000000")):
                file = f"out_voltage{index}_{name}"
                channel.add(Attribute(name, file, *self._stored(file, default)))
            for attribute in self._fpga_rate("out_voltage", "tx_interpolation"):
                channel.add(attribute)
            device.channels.append(channel)
        for index, name in enumerate(_TONE_NAMES):
            device.channels.append(self._tone(index, name))
        device.attributes["sync_start_enable"] = Attribute(
            "sync_start_enable", "sync_start_enable", *self._stored("tx sync_start_enable", "disarm")
        )
        device.debug["direct_reg_access"] = self._register_access("tx")
        self._buffer_attributes(device, "tx")
        return device

    def _buffer_attributes(self, device: Device, which: str) -> None:
        for name, default in (("watermark", "4096"), ("data_available", "0"), ("length_align_bytes", "8")):
            device.buffer[name] = Attribute(name, name, *self._stored(f"{which} buffer {name}", default))

    def _fpga_rate(self, prefix: str, field_: str) -> Sequence[Attribute]:
        """A filter by 8 behind the chip: on if the slower one of two rates is chosen."""

        def rates() -> tuple[int, int]:
            return self.settings.sample_rate_hz, self.settings.sample_rate_hz // 8

        def write(text: str) -> None:
            rate = _integer(text)
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
            hertz = _integer(text)
            if not 0 <= hertz <= self.settings.sample_rate_hz // 2:
                refuse()
            self._set_tone(tone, "frequency_hz", _tone_step(hertz, self.settings.sample_rate_hz))

        def write_phase(text: str) -> None:
            millidegrees = _integer(text)
            if not 0 <= millidegrees <= 360_000:
                refuse()
            self._set_tone(tone, "phase_degrees", millidegrees / 1000)

        def write_scale(text: str) -> None:
            scale = _decimal(text)
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

    # The board's own converters.

    def _adm1177(self) -> Device:
        device = Device("iio:device0", "adm1177")
        for id_, raw, scale in (("voltage0", "776", "6.433105468"), ("current0", "858", "0.516601562")):
            channel = Channel(id_, output=False)
            channel.add(Attribute("raw", f"in_{id_}_raw", _constant(raw)))
            channel.add(Attribute("scale", f"in_{id_}_scale", _constant(scale)))
            device.channels.append(channel)
        return device

    def _xadc(self) -> Device:
        device = Device("iio:device2", "xadc")
        temperature = Channel("temp0", output=False)

        def raw() -> str:  # as that chip counts: degrees = (raw - 2219) * 0.12304
            return str(round(self.sensors.temperature_millidegrees() / 123.040771484) + 2219)

        temperature.add(Attribute("offset", "in_temp0_offset", _constant("-2219")))
        temperature.add(Attribute("raw", "in_temp0_raw", raw))
        temperature.add(Attribute("scale", "in_temp0_scale", _constant("123.040771484")))
        device.channels.append(temperature)
        for index, (name, value) in enumerate((("vccint", "1370"), ("vccaux", "2458"))):
            channel = Channel(f"voltage{index}", output=False, name=name)
            channel.add(Attribute("raw", f"in_voltage{index}_{name}_raw", _constant(value)))
            channel.add(Attribute("scale", f"in_voltage{index}_{name}_scale", _constant("0.732421875")))
            device.channels.append(channel)
        return device

    # Reading and writing.

    def _set(self, name: str, value: object) -> None:
        setattr(self.settings, name, value)
        self.changed()

    def _set_tone(self, tone: Tone, name: str, value: float) -> None:
        setattr(tone, name, value)
        self.changed()

    def _ignore(self, text: str) -> None:
        """Taken, and without effect here."""

    def _stored(self, key: str, default: str) -> tuple[Callable[[], str], Callable[[str], None]]:
        """Read back as written, without any effect."""

        def write(text: str) -> None:
            if len(text) > _MOST_TEXT:
                refuse(errno.E2BIG)
            self._texts[key] = text.strip()

        return (lambda: self._texts.get(key, default)), write

    def _choice(self, key: str, allowed: Sequence[str]) -> tuple[Callable[[], str], Callable[[str], None]]:
        read, write = self._stored(key, allowed[0])
        return read, lambda text: write(text) if text.strip() in allowed else refuse()

    def _switch(self, key: str) -> tuple[Callable[[], str], Callable[[str], None]]:
        read, write = self._stored(key, "1")
        return read, lambda text: write(str(int(_boolean(text))))

    def _bandwidth(self, name: str, allowed: Range) -> tuple[Callable[[], str], Callable[[str], None]]:
        def write(text: str) -> None:
            self._set(name, int(allowed.clamp(_integer(text))))  # the driver takes the nearest that it can do

        return (lambda: str(getattr(self.settings, name))), write

    def _rates(self) -> PathRates:
        return path_rates(self.settings.sample_rate_hz, self.fir.rx_factor if self.fir.enabled else 1)

    def _least_rate(self) -> Range:
        """A FIR by four lets the samples be four times slower than the converters allow."""
        low = limits.SAMPLE_RATE_WITHOUT_FIR_HZ.low / (self.fir.rx_factor if self.fir.enabled else 1)
        return Range(math.floor(low), 1, limits.SAMPLE_RATE_HZ.high, "Hz")

    def _rates_available(self) -> str:
        return _available(self._least_rate())

    def _read_rate(self) -> str:
        return str(self.settings.sample_rate_hz)

    def _write_rate(self, text: str) -> None:
        rate = _within(self._least_rate(), _integer(text))
        if self.fir.enabled and self.fir.rx_taps > path_rates(rate, self.fir.rx_factor).most_taps:
            refuse()
        self._set("sample_rate_hz", rate)

    def _read_fir(self) -> str:
        return str(int(self.fir.enabled))

    def _write_fir(self, text: str) -> None:
        on = _boolean(text)
        if on:
            taps = max(self.fir.rx_taps, self.fir.tx_taps)
            if not taps or taps > path_rates(self.settings.sample_rate_hz, self.fir.rx_factor).most_taps:
                refuse()
        elif self.settings.sample_rate_hz < math.floor(limits.SAMPLE_RATE_WITHOUT_FIR_HZ.low):
            refuse()
        self.fir.enabled = on
        self.changed()

    def _read_fir_config(self) -> str:
        fir = self.fir
        return f"FIR Rx: {fir.rx_taps},{fir.rx_factor} Tx: {fir.tx_taps},{fir.tx_factor}"

    def _write_fir_config(self, text: str) -> None:
        """Lines of settings, then one line a tap: RX and TX."""
        if self.fir.enabled:
            refuse(errno.EBUSY)
        lines = [line.strip() for line in text.replace("\0", "").splitlines()]
        taps = [line for line in lines if re.fullmatch(r"-?\d{1,6}(\s*,\s*-?\d{1,6})?", line)]
        rx = re.search(r"^RX\s+[0-3]\s+GAIN\s+-?\d+\s+DEC\s+([124])\b", text, re.M)
        tx = re.search(r"^TX\s+[0-3]\s+GAIN\s+-?\d+\s+INT\s+([124])\b", text, re.M)
        if not (rx or tx) or not taps or len(taps) > 128 or len(taps) % 16:
            refuse()
        factor = int((rx or tx or refuse()).group(1))
        self.fir = Fir(False, len(taps), factor, len(taps), int(tx.group(1)) if tx else factor)

    def _read_gain_table(self) -> str:
        gains = self._rx_gains()
        rows = "".join(f"{gain}, 0x00, 0x00, 0x00\n" for gain in range(int(gains.low), int(gains.high) + 1))
        return f"<gaintable AD9361 type=FULL dest=3 start=0 end=6000000000>\n{rows}</gaintable>\n"

    def _write_ensm(self, text: str) -> None:
        if text.strip() not in _ENSM:
            refuse()
        self._set("ensm_mode", text.strip())

    def _write_gain_mode(self, text: str) -> None:
        if text.strip() not in limits.GAIN_MODES:
            refuse()
        self.settings.rx_gain_db = self._rx_gain()
        self._set("gain_mode", text.strip())

    def _rx_gains(self) -> Range:
        return limits.rx_gain_db(self.settings.rx_lo_hz)

    def _rx_gain(self) -> int:
        gain = self.settings.rx_gain_db
        if self.settings.gain_mode != "manual" and self.sensors.rx_gain_db is not None:
            gain = self.sensors.rx_gain_db()
        return int(self._rx_gains().clamp(gain))

    def _write_rx_gain(self, text: str) -> None:
        gain = math.trunc(_decimal(text))
        if self.settings.gain_mode != "manual":
            refuse(errno.EOPNOTSUPP)
        self._set("rx_gain_db", _within(self._rx_gains(), gain))

    def _write_tx_gain(self, text: str) -> None:
        gain = _decimal(text)
        if gain not in limits.TX_GAIN_DB:
            refuse()
        self._set("tx_gain_db", limits.TX_GAIN_DB.nearest(gain))

    def _write_loopback(self, text: str) -> None:
        mode = _integer(text)
        if mode not in (0, 1, 2):
            refuse()
        self._set("loopback", mode)

    def _write_xo(self, text: str) -> None:
        self._set("xo_hz", _within(limits.XO_HZ, _integer(text)))

    def _write_tones_on(self, text: str) -> None:
        self._set("tones_on", bool(_integer(text)))

    # Registers.

    def _register_access(self, which: str) -> Attribute:
        """An address alone selects what the next read shows; an address and a value write it."""

        def read() -> str:
            at = self._register_at[which]
            if at == STATUS_REGISTER and which in self.status:
                return f"0x{self.status[which]:X}"
            return f"0x{self._registers[which].get(at, 0):X}"

        def write(text: str) -> None:
            words = text.replace("\0", "").split()
            try:
                numbers = [int(word, 0) for word in words]
            except ValueError:
                refuse()
            if len(numbers) not in (1, 2) or not all(0 <= number < 1 << 32 for number in numbers):
                refuse()
            self._register_at[which] = numbers[0]
            if len(numbers) == 2:
                self._write_register(which, *numbers)

        return Attribute("direct_reg_access", "direct_reg_access", read, write)

    def _write_register(self, which: str, at: int, value: int) -> None:
        registers = self._registers[which]
        if at == STATUS_REGISTER and which in self.status:
            self.status[which] &= ~value  # a one clears
        elif at in registers or len(registers) < _MOST_REGISTERS:
            registers[at] = value
        else:
            refuse(errno.ENOMEM)


def _constant(text: str) -> Callable[[], str]:
    return lambda: text


def _available(allowed: Range) -> str:
    return f"[{math.floor(allowed.low)} {allowed.step:g} {math.floor(allowed.high)}]"


def _integer(text: str) -> int:
    text = text.replace("\0", "")
    return math.trunc(float(text)) if "." in text and _INTEGER.fullmatch(text) else _whole(text)


def _whole(text: str) -> int:
    return int(text) if _INTEGER.fullmatch(text) else refuse()


def _decimal(text: str) -> float:
    text = text.replace("\0", "")
    return float(text.replace("dB", "")) if _DECIMAL.fullmatch(text) else refuse()


def _boolean(text: str) -> bool:
    word = text.replace("\0", "").strip().lower()
    if word in ("1", "y", "yes", "on", "true"):
        return True
    return False if word in ("0", "n", "no", "off", "false") else refuse()


def _within(allowed: Range, value: int) -> int:
    return value if value in allowed else refuse()


def _tone_step(hertz: int, sample_rate_hz: int) -> float:
    """The generators count in 1/65,536 of a turn."""
    return round(hertz / sample_rate_hz * 65_536) * sample_rate_hz / 65_536
