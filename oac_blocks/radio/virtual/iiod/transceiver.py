# SPDX-License-Identifier: GPL-3.0-or-later
"""The device ``ad9361-phy``: oscillators, rates, filters, gains; ranges and errors are those of the kernel's driver."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from oac_blocks.radio import ad9361
from oac_blocks.radio.ad9361 import Chip
from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.iiod import texts
from oac_blocks.radio.virtual.iiod.attributes import Attribute, Channel, Device, refuse
from oac_blocks.radio.virtual.iiod.fastlock import Fastlock
from oac_blocks.radio.virtual.iiod.path_rates import ChipRates, path_rates
from oac_blocks.radio.virtual.iiod.registers import ChipRegisters
from oac_blocks.radio.virtual.iiod.settings import RadioSettings
from oac_blocks.radio.virtual.iiod.texts import Read, Texts, Write

_ENSM = ("sleep", "wait", "alert", "fdd", "pinctrl", "pinctrl_fdd_indep")
_CALIBRATIONS = ("auto", "manual", "manual_tx_quad", "tx_quad", "rf_dc_offs", "rssi_gain_step")
_RX_PORTS = (
    *("A_BALANCED", "B_BALANCED", "C_BALANCED", "A_N", "A_P", "B_N", "B_P", "C_N", "C_P"),
    *("TX_MONITOR1", "TX_MONITOR2", "TX_MONITOR1_2"),
)
_TX_PORTS = ("A", "B")
_GOVERNORS = ("nominal", "highest_osr")
_ONCE = ("tx_quad", "rf_dc_offs", "rssi_gain_step")  # calibrations that run once and leave the mode as it is
_FASTEST_FIR_HZ = 122_880_000
_RSSI_ERRORS = "lna_error: 0 0 0 0\nmixer_error: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\ngain_step_calib_reg_val: 0 0 0 0 0"
_FIR_RX = re.compile(r"^RX\s+[0-3]\s+GAIN\s+(?:-12|-6|0|6)\s+DEC\s+([124])\s*$", re.M)
_FIR_TX = re.compile(r"^TX\s+[0-3]\s+GAIN\s+(?:-6|0)\s+INT\s+([124])\s*$", re.M)
_SYNC_STEPS = Range(0, 1, 5)
_AUXILIARY_MILLIVOLTS = Range(306, 1, 3000)
_PRBS_MODES = _TONE_MODES = Range(0, 1, 2)
_ANY = Range(0, 1, 2**31 - 1)


@dataclass
class Sensors:
    """What the air measures and attributes report."""

    temperature_millidegrees: Callable[[], int] = lambda: 35_000
    rssi_db: Callable[[], float] = lambda: 110.0
    rx_gain_db: Callable[[], int] | None = None  # gain that automatic gain control has reached


@dataclass
class Fir:
    enabled: bool = False
    rx_taps: int = 0
    rx_factor: int = 1
    tx_taps: int = 0
    tx_factor: int = 1


class Transceiver:
    """The transceiver. ``changed`` is called after each write that took effect."""

    def __init__(
        self,
        settings: RadioSettings,
        sensors: Sensors,
        kept: Texts,
        changed: Callable[[], None],
        chip: Chip = ad9361.CHIPS["ad9364"],
    ) -> None:
        self.settings, self.sensors, self.chip = settings, sensors, chip
        self.fir = Fir()
        self._texts, self._changed = kept, changed
        self._governor, self._set_governor = kept.choice("trx_rate_governor", _GOVERNORS)
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
        fir = Attribute("voltage_filter_fir_en", "in_out_voltage_filter_fir_en", self._read_fir, self._write_fir)
        device.channels[-1].add(fir)
        for name, read, write in (
            ("calib_mode", *self._calibration()),
            ("calib_mode_available", texts.constant(" ".join(_CALIBRATIONS)), None),
            ("dcxo_tune_coarse", lambda: refuse(errno.ENODEV), self._tune_crystal),
            ("dcxo_tune_coarse_available", texts.constant("[0 0 0]"), None),
            ("dcxo_tune_fine", lambda: refuse(errno.ENODEV), self._tune_crystal),
            ("dcxo_tune_fine_available", texts.constant("[0 0 0]"), None),
            ("ensm_mode", lambda: self.settings.ensm_mode, self._write_ensm),
            ("ensm_mode_available", texts.constant(" ".join(_ENSM)), None),
            ("filter_fir_config", self._read_fir_config, self._write_fir_config),
            ("gain_table_config", self._read_gain_table, self._write_gain_table),
            ("multichip_sync", None, self._texts.whole("multichip_sync", 0, _SYNC_STEPS)[1]),
            ("rssi_gain_step_error", texts.constant(_RSSI_ERRORS), None),
            ("rx_path_rates", lambda: self._rates().rx.text("ADC", "R", "RXSAMP"), None),
            ("trx_rate_governor", self._governor, self._set_governor),
            ("trx_rate_governor_available", texts.constant(" ".join(_GOVERNORS)), None),
            ("tx_path_rates", lambda: self._rates().tx.text("DAC", "T", "TXSAMP"), None),
            ("xo_correction", lambda: str(self.settings.xo_hz), self._write_xo),
            ("xo_correction_available", texts.constant(texts.available(ad9361.XO_HZ)), None),
        ):
            device.attributes[name] = Attribute(name, name, read, write)
        for name, read, write in (
            ("bist_tone", *self._texts.numbers("bist_tone", _TONE_MODES, _ANY, _ANY, _ANY)),
            ("bist_prbs", *self._texts.whole("bist_prbs", 0, _PRBS_MODES)),
            ("bist_timing_analysis", *self._texts.whole("bist_timing_analysis", 0, Range(0, 1, 1))),
            ("digital_tune", *self._texts.numbers("digital_tune", _ANY, _ANY)),
            ("initialize", texts.constant("0"), self._initialize),
            ("loopback", lambda: str(self.settings.loopback), self._write_loopback),
        ):
            device.debug[name] = Attribute(name, name, read, write)
        device.debug["direct_reg_access"] = ChipRegisters(self.settings).attribute()
        return device

    def _oscillator(self, index: int, name: str) -> Channel:
        channel = Channel(f"altvoltage{index}", output=True, name=name)
        file = f"out_altvoltage{index}_{name}_"
        field_, on = ("rx_lo_hz", "rx_lo_on") if index == 0 else ("tx_lo_hz", "tx_lo_on")
        allowed = self.chip.rx_lo_hz if index == 0 else self.chip.tx_lo_hz

        def tune(hertz: int) -> None:
            self._set(field_, ad9361.synthesised_hz(texts.within(allowed, hertz)))

        def write_frequency(text: str) -> None:
            tune(texts.integer(text))

        def write_power(text: str) -> None:
            self._set(on, not texts.boolean(text))

        def use_external(text: str) -> None:
            texts.boolean(text)
            refuse(errno.ENODEV)  # a Pluto has no input for an external oscillator

        for attribute, read, write in (
            ("external", texts.constant("0"), use_external),
            *Fastlock(lambda: int(getattr(self.settings, field_)), tune).attributes(),
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
            ("gain_control_mode_available", texts.constant(" ".join(ad9361.GAIN_MODES)), None),
            ("quadrature_tracking_en", *self._texts.switch("quadrature_tracking_en")),
            ("rf_bandwidth", *self._bandwidth("rx_bandwidth_hz", ad9361.RX_BANDWIDTH_HZ)),
            ("rf_bandwidth_available", texts.constant(texts.available(ad9361.RX_BANDWIDTH_HZ)), None),
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
            ("rf_port_select", *self._texts.choice("rx_port", _RX_PORTS[:1])),
            ("rssi", lambda: f"{self.sensors.rssi_db():.2f} dB", None),
        ):
            channel.add(Attribute(name, f"in_voltage0_{name}", read, write))
        return channel

    def _phy_output(self) -> Channel:
        channel = Channel("voltage0", output=True)
        for name, read, write in (
            ("filter_fir_en", self._read_fir, self._write_fir),
            ("rf_bandwidth", *self._bandwidth("tx_bandwidth_hz", ad9361.TX_BANDWIDTH_HZ)),
            ("rf_bandwidth_available", texts.constant(texts.available(ad9361.TX_BANDWIDTH_HZ)), None),
            ("rf_port_select_available", texts.constant(" ".join(_TX_PORTS)), None),
            ("sampling_frequency", self._read_rate, self._write_rate),
            ("sampling_frequency_available", self._rates_available, None),
        ):
            channel.add(Attribute(name, f"out_voltage_{name}", read, write))
        gains = ad9361.TX_GAIN_DB
        for name, read, write in (
            ("hardwaregain", lambda: f"{self.settings.tx_gain_db:.6f} dB", self._write_tx_gain),
            ("hardwaregain_available", texts.constant(f"[{gains.low:.6f} {gains.step:.6f} {gains.high:.6f}]"), None),
            ("rf_port_select", *self._texts.choice("tx_port", _TX_PORTS[:1])),
            ("rssi", texts.constant("0.00 dB"), None),
        ):
            channel.add(Attribute(name, f"out_voltage0_{name}", read, write))
        return channel

    def _auxiliary(self) -> list[Channel]:
        """Return the attributes of the chip's slow converters."""
        channels = []
        channel = Channel("voltage2", output=False)
        for name, value in (("offset", "57"), ("raw", "1010"), ("scale", "0.305250")):
            channel.add(Attribute(name, f"in_voltage2_{name}", texts.constant(value)))
        channels.append(channel)
        for id_ in ("voltage2", "voltage3"):
            channel, file = Channel(id_, output=True), f"out_{id_}_"
            volts = self._texts.whole(file + "raw", int(_AUXILIARY_MILLIVOLTS.low), _AUXILIARY_MILLIVOLTS)
            channel.add(Attribute("raw", file + "raw", *volts))
            channel.add(Attribute("scale", file + "scale", texts.constant("1.000000")))
            channels.append(channel)
        return channels

    # Reading and writing.

    def _set(self, name: str, value: object) -> None:
        setattr(self.settings, name, value)
        self._changed()

    def _calibration(self) -> tuple[Read, Write]:
        read, write = self._texts.choice("calib_mode", [word for word in _CALIBRATIONS if word not in _ONCE])

        def calibrate(text: str) -> None:
            word, _, phase = texts.plain(text).partition(" ")
            if word not in _ONCE:
                write(text)
            elif phase:
                texts.integer(phase if word == "tx_quad" else refuse())

        return read, calibrate

    def _tune_crystal(self, text: str) -> None:
        texts.integer(text)
        refuse(errno.ENODEV)  # the crystal is outside the chip

    def _initialize(self, text: str) -> None:
        if texts.integer(text) != 1:
            refuse()

    def _bandwidth(self, name: str, allowed: Range) -> tuple[Read, Write]:
        def write(text: str) -> None:
            # The driver sets the nearest bandwidth that it can, without an error.
            hertz = min(allowed.clamp(texts.integer(text)), self.chip.widest_bandwidth_hz)
            self._set(name, int(hertz))

        return (lambda: str(getattr(self.settings, name))), write

    def _rates_at(self, sample_rate_hz: int, fir_factor: int) -> ChipRates:
        return path_rates(sample_rate_hz, fir_factor, highest_osr=self._governor() == "highest_osr")

    def _rates(self) -> ChipRates:
        return self._rates_at(self.settings.sample_rate_hz, self.fir.rx_factor if self.fir.enabled else 1)

    def _possible_rates(self) -> Range:
        """Return the sample rates that the FIR allows: by four, a lowest rate four times lower, and a highest rate."""
        factor = self.fir.rx_factor if self.fir.enabled else 1
        low = math.floor(ad9361.SAMPLE_RATE_WITHOUT_FIR_HZ.low / factor)
        return Range(low, 1, min(ad9361.SAMPLE_RATE_HZ.high, _FASTEST_FIR_HZ // factor), "Hz")

    def _rates_available(self) -> str:
        return texts.available(self._possible_rates())

    def _read_rate(self) -> str:
        return str(self.settings.sample_rate_hz)

    def _write_rate(self, text: str) -> None:
        rate = texts.within(self._possible_rates(), texts.integer(text))
        if self.fir.enabled and self.fir.rx_taps > self._rates_at(rate, self.fir.rx_factor).most_taps:
            refuse()
        self._set("sample_rate_hz", rate)

    def _read_fir(self) -> str:
        return str(int(self.fir.enabled))

    def _write_fir(self, text: str) -> None:
        on = texts.boolean(text)
        if on:
            taps = max(self.fir.rx_taps, self.fir.tx_taps)
            rate, factor = self.settings.sample_rate_hz, self.fir.rx_factor
            if not taps or rate * factor > _FASTEST_FIR_HZ or taps > self._rates_at(rate, factor).most_taps:
                refuse()
        elif self.settings.sample_rate_hz < math.floor(ad9361.SAMPLE_RATE_WITHOUT_FIR_HZ.low):
            refuse()
        self.fir.enabled = on
        self._changed()

    def _read_fir_config(self) -> str:
        fir = self.fir
        return f"FIR Rx: {fir.rx_taps},{fir.rx_factor} Tx: {fir.tx_taps},{fir.tx_factor}"

    def _write_fir_config(self, text: str) -> None:
        """Load filters from lines of settings and then one line for each tap, RX and TX."""
        if self.fir.enabled:
            refuse(errno.EBUSY)
        text = text.replace("\0", "")
        lines = [line.strip() for line in text.splitlines()]
        taps = [line for line in lines if re.fullmatch(r"-?\d{1,6}(\s*,\s*-?\d{1,6})?", line)]
        rx, tx = _FIR_RX.search(text), _FIR_TX.search(text)
        if any(not -32_768 <= int(word) <= 32_767 for tap in taps for word in tap.split(",")):
            refuse()
        if not (rx or tx) or not taps or len(taps) > 128 or len(taps) % 16:
            refuse()
        factor = int((rx or tx or refuse()).group(1))
        self.fir = Fir(False, len(taps), factor, len(taps), int(tx.group(1)) if tx else factor)

    def _read_gain_table(self) -> str:
        gains = self._rx_gains()
        rows = "".join(f"{gain}, 0x00, 0x00, 0x00\n" for gain in range(int(gains.low), int(gains.high) + 1))
        return f"<gaintable AD9361 type=FULL dest=3 start=0 end=6000000000>\n{rows}</gaintable>\n"

    def _write_gain_table(self, text: str) -> None:
        refuse(errno.EPERM if "<gaintable" in text else errno.EINVAL)

    def _write_ensm(self, text: str) -> None:
        if texts.plain(text) not in _ENSM:
            refuse()
        self._set("ensm_mode", texts.plain(text))

    def _write_gain_mode(self, text: str) -> None:
        if texts.plain(text) not in ad9361.GAIN_MODES:
            refuse()
        self.settings.rx_gain_db = self._rx_gain()
        self._set("gain_mode", texts.plain(text))

    def _rx_gains(self) -> Range:
        return ad9361.rx_gain_db(self.settings.rx_lo_hz)

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
        if gain not in ad9361.TX_GAIN_DB:
            refuse()
        self._set("tx_gain_db", ad9361.TX_GAIN_DB.nearest(gain))

    def _write_loopback(self, text: str) -> None:
        mode = texts.integer(text)
        if mode not in (0, 1, 2):
            refuse()
        self._set("loopback", mode)

    def _write_xo(self, text: str) -> None:
        self._set("xo_hz", texts.within(ad9361.XO_HZ, texts.integer(text)))
