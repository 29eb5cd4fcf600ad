# SPDX-License-Identifier: GPL-3.0-or-later
"""The device ``ad9361-phy``: oscillators, rates, filters, gains, with the ranges and errors of the kernel's driver."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from oac_blocks.radio import limits
from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual import texts
from oac_blocks.radio.virtual.attributes import Attribute, Channel, Device, refuse
from oac_blocks.radio.virtual.path_rates import PathRates, path_rates
from oac_blocks.radio.virtual.registers import Registers
from oac_blocks.radio.virtual.settings import RadioSettings
from oac_blocks.radio.virtual.texts import Read, Texts, Write

_ENSM = ("sleep", "wait", "alert", "fdd", "pinctrl", "pinctrl_fdd_indep")
_CALIBRATIONS = ("auto", "manual", "manual_tx_quad", "tx_quad", "rf_dc_offs", "rssi_gain_step")
_RX_PORTS = (
    *("A_BALANCED", "B_BALANCED", "C_BALANCED", "A_N", "A_P", "B_N", "B_P", "C_N", "C_P"),
    *("TX_MONITOR1", "TX_MONITOR2", "TX_MONITOR1_2"),
)
_TX_PORTS = ("A", "B")
_GOVERNORS = ("nominal", "highest_osr")


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


class Transceiver:
    """``changed`` is called after each write that took effect."""

    def __init__(self, settings: RadioSettings, sensors: Sensors, kept: Texts, changed: Callable[[], None]) -> None:
        self.settings, self.sensors = settings, sensors
        self.fir = Fir()
        self._texts, self._changed = kept, changed
        self.device = self._phy()

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
            ("calib_mode", *self._texts.choice("calib_mode", _CALIBRATIONS)),
            ("calib_mode_available", texts.constant(" ".join(_CALIBRATIONS)), None),
            ("dcxo_tune_coarse", lambda: refuse(errno.ENODEV), None),
            ("dcxo_tune_coarse_available", texts.constant("[0 0 0]"), None),
            ("dcxo_tune_fine", lambda: refuse(errno.ENODEV), None),
            ("dcxo_tune_fine_available", texts.constant("[0 0 0]"), None),
            ("ensm_mode", lambda: self.settings.ensm_mode, self._write_ensm),
            ("ensm_mode_available", texts.constant(" ".join(_ENSM)), None),
            ("filter_fir_config", self._read_fir_config, self._write_fir_config),
            ("gain_table_config", self._read_gain_table, lambda _: refuse(errno.EPERM)),
            ("multichip_sync", None, lambda text: self._ignore(text)),
            ("rssi_gain_step_error", texts.constant("lna_error: 0 0 0 0\n"), None),
            ("rx_path_rates", lambda: self._rates().text("ADC", "R", "RXSAMP"), None),
            ("trx_rate_governor", *self._texts.choice("trx_rate_governor", _GOVERNORS)),
            ("trx_rate_governor_available", texts.constant(" ".join(_GOVERNORS)), None),
            ("tx_path_rates", lambda: self._rates().text("DAC", "T", "TXSAMP"), None),
            ("xo_correction", lambda: str(self.settings.xo_hz), self._write_xo),
            ("xo_correction_available", texts.constant(texts.available(limits.XO_HZ)), None),
        ):
            device.attributes[name] = Attribute(name, name, read, write)
        for name in ("bist_tone", "bist_prbs", "bist_timing_analysis", "digital_tune", "initialize"):
            device.debug[name] = Attribute(name, name, *self._texts.stored(f"debug {name}", "0"))
        device.debug["loopback"] = Attribute(
            "loopback", "loopback", lambda: str(self.settings.loopback), self._write_loopback
        )
        device.debug["direct_reg_access"] = Registers().attribute()
        return device

    def _oscillator(self, index: int, name: str) -> Channel:
        channel = Channel(f"altvoltage{index}", output=True, name=name)
        file = f"out_altvoltage{index}_{name}_"
        field_, on = ("rx_lo_hz", "rx_lo_on") if index == 0 else ("tx_lo_hz", "tx_lo_on")
        allowed = limits.RX_LO_HZ if index == 0 else limits.TX_LO_HZ

        def write_frequency(text: str) -> None:
            self._set(field_, limits.synthesised_hz(texts.within(allowed, texts.integer(text))))

        def write_power(text: str) -> None:
            self._set(on, not texts.integer(text))

        for attribute, read, write in (
            ("external", *self._texts.stored(file + "external", "0")),
            ("fastlock_load", *self._texts.stored(file + "fastlock_load", "0")),
            ("fastlock_recall", lambda: refuse(), lambda _: refuse()),
            ("fastlock_save", *self._texts.stored(file + "fastlock_save", "0 " + ",".join(["0"] * 16))),
            ("fastlock_store", *self._texts.stored(file + "fastlock_store", "0")),
            ("frequency", lambda: str(getattr(self.settings, field_)), write_frequency),
            ("frequency_available", texts.constant(texts.available(allowed)), None),
            ("powerdown", lambda: str(int(not getattr(self.settings, on))), write_power),
        ):
            channel.add(Attribute(attribute, file + attribute, read, write))
        return channel

    def _phy_input(self) -> Channel:
        channel = Channel("voltage0", output=False)
        for name, read, write in (
            ("bb_dc_offset_tracking_en", *self._texts.switch("bb_dc_offset_tracking_en")),
            ("filter_fir_en", self._read_fir, self._write_fir),
            ("gain_control_mode_available", texts.constant(" ".join(limits.GAIN_MODES)), None),
            ("quadrature_tracking_en", *self._texts.switch("quadrature_tracking_en")),
            ("rf_bandwidth", *self._bandwidth("rx_bandwidth_hz", limits.RX_BANDWIDTH_HZ)),
            ("rf_bandwidth_available", texts.constant(texts.available(limits.RX_BANDWIDTH_HZ)), None),
            ("rf_dc_offset_tracking_en", *self._texts.switch("rf_dc_offset_tracking_en")),
            ("rf_port_select_available", texts.constant(" ".join(_RX_PORTS)), None),
            ("sampling_frequency", self._read_rate, self._write_rate),
            ("sampling_frequency_available", self._rates_available, None),
        ):
            channel.add(Attribute(name, f"in_voltage_{name}", read, write))
        for name, read, write in (
            ("gain_control_mode", lambda: self.settings.gain_mode, self._write_gain_mode),
            ("hardwaregain", lambda: f"{self._rx_gain():.6f} dB", self._write_rx_gain),
            ("hardwaregain_available", lambda: texts.available(self._rx_gains()), None),
            ("rf_port_select", *self._texts.choice("rx_port", _RX_PORTS)),
            ("rssi", lambda: f"{self.sensors.rssi_db():.2f} dB", None),
        ):
            channel.add(Attribute(name, f"in_voltage0_{name}", read, write))
        return channel

    def _phy_output(self) -> Channel:
        channel = Channel("voltage0", output=True)
        for name, read, write in (
            ("filter_fir_en", self._read_fir, self._write_fir),
            ("rf_bandwidth", *self._bandwidth("tx_bandwidth_hz", limits.TX_BANDWIDTH_HZ)),
            ("rf_bandwidth_available", texts.constant(texts.available(limits.TX_BANDWIDTH_HZ)), None),
            ("rf_port_select_available", texts.constant(" ".join(_TX_PORTS)), None),
            ("sampling_frequency", self._read_rate, self._write_rate),
            ("sampling_frequency_available", self._rates_available, None),
        ):
            channel.add(Attribute(name, f"out_voltage_{name}", read, write))
        gains = limits.TX_GAIN_DB
        for name, read, write in (
            ("hardwaregain", lambda: f"{self.settings.tx_gain_db:.6f} dB", self._write_tx_gain),
            ("hardwaregain_available", texts.constant(f"[{gains.low:.6f} {gains.step:.6f} {gains.high:.6f}]"), None),
            ("rf_port_select", *self._texts.choice("tx_port", _TX_PORTS)),
            ("rssi", texts.constant("0.00 dB"), None),
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
                channel.add(Attribute(name, file, *self._texts.stored(file, value)))
            channels.append(channel)
        return channels

    # Reading and writing.

    def _set(self, name: str, value: object) -> None:
        setattr(self.settings, name, value)
        self._changed()

    def _ignore(self, text: str) -> None:
        """Taken, and without effect here."""

    def _bandwidth(self, name: str, allowed: Range) -> tuple[Read, Write]:
        def write(text: str) -> None:
            self._set(name, int(allowed.clamp(texts.integer(text))))  # the driver takes the nearest that it can do

        return (lambda: str(getattr(self.settings, name))), write

    def _rates(self) -> PathRates:
        return path_rates(self.settings.sample_rate_hz, self.fir.rx_factor if self.fir.enabled else 1)

    def _least_rate(self) -> Range:
        """A FIR by four lets the samples be four times slower than the converters allow."""
        low = limits.SAMPLE_RATE_WITHOUT_FIR_HZ.low / (self.fir.rx_factor if self.fir.enabled else 1)
        return Range(math.floor(low), 1, limits.SAMPLE_RATE_HZ.high, "Hz")

    def _rates_available(self) -> str:
        return texts.available(self._least_rate())

    def _read_rate(self) -> str:
        return str(self.settings.sample_rate_hz)

    def _write_rate(self, text: str) -> None:
        rate = texts.within(self._least_rate(), texts.integer(text))
        if self.fir.enabled and self.fir.rx_taps > path_rates(rate, self.fir.rx_factor).most_taps:
            refuse()
        self._set("sample_rate_hz", rate)

    def _read_fir(self) -> str:
        return str(int(self.fir.enabled))

    def _write_fir(self, text: str) -> None:
        on = texts.boolean(text)
        if on:
            taps = max(self.fir.rx_taps, self.fir.tx_taps)
            if not taps or taps > path_rates(self.settings.sample_rate_hz, self.fir.rx_factor).most_taps:
                refuse()
        elif self.settings.sample_rate_hz < math.floor(limits.SAMPLE_RATE_WITHOUT_FIR_HZ.low):
            refuse()
        self.fir.enabled = on
        self._changed()

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
        gain = math.trunc(texts.decimal(text))
        if self.settings.gain_mode != "manual":
            refuse(errno.EOPNOTSUPP)
        self._set("rx_gain_db", texts.within(self._rx_gains(), gain))

    def _write_tx_gain(self, text: str) -> None:
        gain = texts.decimal(text)
        if gain not in limits.TX_GAIN_DB:
            refuse()
        self._set("tx_gain_db", limits.TX_GAIN_DB.nearest(gain))

    def _write_loopback(self, text: str) -> None:
        mode = texts.integer(text)
        if mode not in (0, 1, 2):
            refuse()
        self._set("loopback", mode)

    def _write_xo(self, text: str) -> None:
        self._set("xo_hz", texts.within(limits.XO_HZ, texts.integer(text)))
