# SPDX-License-Identifier: GPL-3.0-or-later
"""The attributes of a Pluto by their meaning, through pylibiio, and contexts that are closed at a known time.

pylibiio closes a context when the last reference to it goes, and has no other way. Over USB no other program can open
the radio until then. So ``opened`` yields an object of ours that holds the only reference, drops it at the end, and
clears the frames of an error, which would otherwise keep the context open for as long as a caller keeps the error.
"""

from __future__ import annotations

import contextlib
import errno
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import iio

from oac_blocks.dsp.checks import require
from oac_blocks.radio import ad9361
from oac_blocks.radio.base import RadioError
from oac_blocks.radio.limits import Range

RX_LO, TX_LO = "altvoltage0", "altvoltage1"
_TIMEOUT_MILLISECONDS = 5000  # for one request, if the uri is opened here
_PHY, _RX, _TX = "ad9361-phy", "cf-ad9361-lpc", "cf-ad9361-dds-core-lpc"
_FPGA_FACTOR = 8
# Errors with which a radio refuses a value. Any other one means that the radio does not answer.
_REFUSALS = (errno.EINVAL, errno.EBUSY, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ERANGE, errno.ENOENT)
_RATE_FOR_ANY_FILTER_HZ = 3_000_000  # the chip's own filter (FIR) may be switched on and off at this rate


@dataclass(frozen=True)
class PlutoState:
    """What a Pluto is set to. The numbers are those that the device reports."""

    rx_lo_on: bool
    tx_lo_on: bool
    ensm_mode: str  # "fdd" where both directions run
    loopback: int  # 0: off, 1: digital, from the transmitter to the receiver, 2: in the FPGA, the other way round
    rx_decimation: int  # by the FPGA, behind the chip: 1 or 8
    tx_interpolation: int
    tones_on: bool  # the FPGA's tone generators (DDS); they sound when no program sends samples
    fir_on: bool  # the chip's own filter
    sample_rate_hz: int  # of the chip
    rx_lo_hz: int
    tx_lo_hz: int
    rx_bandwidth_hz: int
    tx_bandwidth_hz: int
    gain_mode: str
    rx_gain_db: float
    tx_gain_db: float


class PlutoDevice:
    """The attributes of a Pluto by their meaning. Errors are OSError as libiio raises it.

    It holds the objects of libiio, so that the functions that use it need not. ``close`` drops them.
    """

    def __init__(self, context: iio.Context) -> None:
        self.uri = str(context.attrs.get("uri", "the radio"))
        self.about: dict[str, str] = dict(context.attrs)  # what the radio says of itself: model, serial number ...
        self._devices = {name: context.find_device(name) for name in (_PHY, _RX, _TX)}
        for name, device in self._devices.items():
            if device is None:
                raise RadioError(f"{self.uri} is no Pluto: it has no {name}")

    def close(self) -> None:
        """Drop all references to libiio. A context that nobody else holds is closed by that."""
        self._devices.clear()

    def state(self) -> PlutoState:
        rate = self._number(_PHY, "voltage0", False, "sampling_frequency")
        return PlutoState(
            rx_lo_on=not self._number(_PHY, RX_LO, True, "powerdown"),
            tx_lo_on=not self._number(_PHY, TX_LO, True, "powerdown"),
            ensm_mode=str(self._devices[_PHY].attrs["ensm_mode"].value).strip(),
            loopback=self._loopback(),
            rx_decimation=self._fpga_factor(_RX, False, rate),
            tx_interpolation=self._fpga_factor(_TX, True, rate),
            tones_on=any(int(tone.attrs["raw"].value) for tone in self._tones()),
            fir_on=bool(self._number(_PHY, "out", False, "voltage_filter_fir_en")),
            sample_rate_hz=round(rate),
            rx_lo_hz=round(self._number(_PHY, RX_LO, True, "frequency")),
            tx_lo_hz=round(self._number(_PHY, TX_LO, True, "frequency")),
            rx_bandwidth_hz=round(self._number(_PHY, "voltage0", False, "rf_bandwidth")),
            tx_bandwidth_hz=round(self._number(_PHY, "voltage0", True, "rf_bandwidth")),
            gain_mode=str(self._attribute(_PHY, "voltage0", False, "gain_control_mode").value).strip(),
            rx_gain_db=self._number(_PHY, "voltage0", False, "hardwaregain"),
            tx_gain_db=self._number(_PHY, "voltage0", True, "hardwaregain"),
        )

    def temperature_celsius(self) -> float:
        return self._number(_PHY, "temp0", False, "input") / 1000

    def sample_rates_hz(self) -> Range:
        """Return the sample rates that the chip takes now."""
        rates = _range(str(self._attribute(_PHY, "voltage0", False, "sampling_frequency_available").value))
        if rates is None:
            raise RadioError(f"{self.uri} is no Pluto that can be read: it reports no range of sample rates")
        return rates

    def silence(self) -> None:
        self._write(_PHY, "voltage0", True, "hardwaregain", ad9361.TX_GAIN_DB.low)
        self.power(TX_LO, False)
        for tone in self._tones():
            tone.attrs["raw"].value = "0"

    def power(self, oscillator: str, on: bool) -> None:
        self._write(_PHY, oscillator, True, "powerdown", int(not on))

    def tune(self, oscillator: str, frequency_hz: int) -> None:
        self._write(_PHY, oscillator, True, "frequency", frequency_hz)

    def tuning_range(self, oscillator: str) -> Range | None:
        """Return the range that the radio reports for an oscillator, or None if it does not report one."""
        channel = self._devices[_PHY].find_channel(oscillator, True)
        available = None if channel is None else channel.attrs.get("frequency_available")
        return None if available is None else _range(str(available.value))

    def set_ensm(self, mode: str) -> None:
        self._devices[_PHY].attrs["ensm_mode"].value = mode

    def set_loopback(self, mode: int) -> None:
        debug = self._devices[_PHY].debug_attrs
        if "loopback" in debug:
            debug["loopback"].value = str(mode)
        else:
            require(mode == 0, "loopback", mode, "0: this firmware has no loopback")

    def set_fpga_factors(self, rx_decimation: int, tx_interpolation: int) -> None:
        rate = round(self._number(_PHY, "voltage0", False, "sampling_frequency"))
        for device, output, factor in ((_RX, False, rx_decimation), (_TX, True, tx_interpolation)):
            if self._has_fpga_filter(device, output):
                self._write(device, "voltage0", output, "sampling_frequency", rate // factor)

    def restore(self, found: PlutoState) -> list[str]:
        failed: list[str] = []

        def attempt(what: str, action: Callable[[], None]) -> None:
            try:
                action()
            except (OSError, RadioError) as error:
                if isinstance(error, OSError) and error.errno not in _REFUSALS:
                    raise  # the radio does not answer at all: what follows would only wait for it
                failed.append(f"{what}: {getattr(error, 'strerror', None) or error}")

        attempt("silence", self.silence)
        attempt("loopback", lambda: self.set_loopback(found.loopback))
        attempt("sample rate", lambda: self._restore_rate(found))
        attempt("FPGA filters", lambda: self.set_fpga_factors(found.rx_decimation, found.tx_interpolation))
        attempt("RX bandwidth", lambda: self._write(_PHY, "voltage0", False, "rf_bandwidth", found.rx_bandwidth_hz))
        attempt("TX bandwidth", lambda: self._write(_PHY, "voltage0", True, "rf_bandwidth", found.tx_bandwidth_hz))
        attempt("RX frequency", lambda: self.tune(RX_LO, found.rx_lo_hz))
        attempt("RX LO", lambda: self.power(RX_LO, found.rx_lo_on))
        attempt("gain", lambda: self._restore_gain(found))
        attempt("TX frequency", lambda: self.tune(TX_LO, found.tx_lo_hz))
        attempt("ENSM", lambda: self.set_ensm(found.ensm_mode))
        attempt("TX gain", lambda: self._write(_PHY, "voltage0", True, "hardwaregain", found.tx_gain_db))
        attempt("TX LO", lambda: self.power(TX_LO, found.tx_lo_on))
        return failed

    def _restore_rate(self, found: PlutoState) -> None:
        """Below 2.08 Msps the chip needs its filter, and with a long filter it cannot reach its highest rates."""
        rate, fir = found.sample_rate_hz, self._number(_PHY, "out", False, "voltage_filter_fir_en")
        if fir and found.fir_on:
            try:
                return self._write(_PHY, "voltage0", False, "sampling_frequency", rate)
            except OSError as error:
                if error.errno not in _REFUSALS:
                    raise
        if fir:
            if self._number(_PHY, "voltage0", False, "sampling_frequency") < ad9361.SAMPLE_RATE_WITHOUT_FIR_HZ.low:
                self._write(_PHY, "voltage0", False, "sampling_frequency", _RATE_FOR_ANY_FILTER_HZ)
            self._write(_PHY, "out", False, "voltage_filter_fir_en", 0)
        self._write(_PHY, "voltage0", False, "sampling_frequency", rate)
        if found.fir_on:
            self._write(_PHY, "out", False, "voltage_filter_fir_en", 1)

    def _restore_gain(self, found: PlutoState) -> None:
        """In an automatic mode the gain is the device's own affair."""
        if found.gain_mode == "manual":
            self._write(_PHY, "voltage0", False, "gain_control_mode", "manual")
            self._write(_PHY, "voltage0", False, "hardwaregain", found.rx_gain_db)
        else:
            self._write(_PHY, "voltage0", False, "gain_control_mode", found.gain_mode)

    def _loopback(self) -> int:
        debug = self._devices[_PHY].debug_attrs
        return int(debug["loopback"].value) if "loopback" in debug else 0

    def _fpga_factor(self, device: str, output: bool, chip_rate_hz: float) -> int:
        if not self._has_fpga_filter(device, output):
            return 1
        rate = self._number(device, "voltage0", output, "sampling_frequency")
        return _FPGA_FACTOR if rate * 2 < chip_rate_hz else 1

    def _has_fpga_filter(self, device: str, output: bool) -> bool:
        channel = self._devices[device].find_channel("voltage0", output)
        return channel is not None and "sampling_frequency" in channel.attrs

    def _tones(self) -> list[Any]:
        channels = [self._devices[_TX].find_channel(f"altvoltage{index}", True) for index in range(4)]
        return [channel for channel in channels if channel is not None and "raw" in channel.attrs]

    def _attribute(self, device: str, channel: str, output: bool, name: str) -> Any:
        found = self._devices[device].find_channel(channel, output)
        if found is None or name not in found.attrs:
            raise RadioError(f"{self.uri} is no Pluto: {device} has no {channel}/{name}")
        return found.attrs[name]

    def _number(self, device: str, channel: str, output: bool, name: str) -> float:
        text = str(self._attribute(device, channel, output, name).value)
        number = re.match(r"\s*[-+]?[\d.]+", text)
        if number is None:
            raise RadioError(f"{self.uri}: {device} {channel}/{name} reads {text!r}, not a number")
        return float(number.group())

    def _write(self, device: str, channel: str, output: bool, name: str, value: float | str) -> None:
        self._attribute(device, channel, output, name).value = f"{value:g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def opened(radio: str | iio.Context, doing: str) -> Iterator[PlutoDevice]:
    """Yield the device of an open context or of a uri, which is opened for the ``with`` block alone.

    Errors of libiio become RadioError, with the radio and what the program was ``doing``.
    """
    device = _device(radio)
    try:
        yield device
    except OSError as error:
        release_frames(error)
        raise RadioError(f"cannot {doing} {device.uri}: {error.strerror or error}") from error
    except BaseException as error:
        release_frames(error)
        raise
    finally:
        device.close()


def _device(radio: str | iio.Context) -> PlutoDevice:
    if not isinstance(radio, str):
        return PlutoDevice(radio)
    require(radio.isascii() and radio != "", "uri", repr(radio), "as in ip:192.168.2.1 or usb:1.2.5")
    try:
        context = iio.Context(radio)
        context.set_timeout(_TIMEOUT_MILLISECONDS)
        return PlutoDevice(context)
    except OSError as error:
        raise RadioError(f"no Pluto at {radio}: {error.strerror or error}") from None


def release_frames(error: BaseException | None) -> None:
    """Clear the local variables of all functions that have ended with ``error``, or with one that led to it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _range(text: str) -> Range | None:
    """Return a range that is written as ``[low step high]``, or None if the text is none."""
    numbers = [float(word) for word in re.findall(r"[\d.]+", text)]
    return Range(numbers[0], numbers[1], numbers[2], "Hz") if len(numbers) == 3 else None
