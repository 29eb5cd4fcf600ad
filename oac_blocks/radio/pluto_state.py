# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a Pluto: read it, make the radio ready to stream, and leave the radio as it was found.

A Pluto keeps what the last program wrote to it. An oscillator (LO) that is powered down, a state machine (ENSM) in
``alert``, a loopback or the FPGA's filters by 8 give no error: the next program just sends or hears nothing.

    found = make_ready(uri, tx_lo_hz=2.45e9)     # None: the transmitter stays off
    try:
        ...                                      # any client of libiio: pyadi-iio, gr-iio
    finally:
        restore(uri, found)

``read_state(radio)`` changes nothing, and ``hindrances(state, transmits)`` names what would keep a stream from working.
All of them take a uri or an open ``iio.Context``. A uri is opened for the call alone: over USB, libiio lets only one
program in at a time, so call them before gr-iio opens the radio and after it has let go. Only pylibiio is needed.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import iio

from oac_blocks.dsp.checks import require
from oac_blocks.radio import ad9361
from oac_blocks.radio.base import RadioError, RadioRangeError
from oac_blocks.radio.limits import Range

_TIMEOUT_MILLISECONDS = 5000  # for one request, where the uri is opened here
_PHY, _RX, _TX = "ad9361-phy", "cf-ad9361-lpc", "cf-ad9361-dds-core-lpc"
_RX_LO, _TX_LO = "altvoltage0", "altvoltage1"
_FPGA_FACTOR = 8
# Errors with which a radio refuses a value. Any other one means that the radio does not answer.
_REFUSALS = (errno.EINVAL, errno.EBUSY, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ERANGE, errno.ENOENT)
_RATE_FOR_ANY_FILTER_HZ = 3_000_000  # the chip's own filter (FIR) may be switched on and off at this rate


@dataclass(frozen=True)
class PlutoState:
    """What a Pluto is set to. Numbers are those that the device reports."""

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


def read_state(radio: str | iio.Context) -> PlutoState:
    """Return what the radio is set to. RadioError if there is none, or it is not a Pluto."""
    with opened(radio) as context, _told(context, "read"):
        return _Device(context).state()


def hindrances(state: PlutoState, transmits: bool) -> list[str]:
    """Return, in words, what keeps a radio in this state from receiving and, if asked, from transmitting."""
    told = [] if state.rx_lo_on else ["its RX LO is powered down"]
    if transmits and not state.tx_lo_on:
        told.append("its TX LO is powered down")
    if state.ensm_mode != "fdd":
        told.append(f"its ENSM is in {state.ensm_mode}, not in fdd")
    if state.loopback:
        told.append(f"its loopback is on (mode {state.loopback})")
    if state.rx_decimation != 1:
        told.append(f"its FPGA decimates received samples by {state.rx_decimation}")
    if state.tx_interpolation != 1:
        told.append(f"its FPGA interpolates transmitted samples by {state.tx_interpolation}")
    return told


def check_tuning(radio: str | iio.Context, **frequencies_hz: float | None) -> None:
    """Refuse frequencies that the chip in this radio cannot be tuned to, before anything is set.

    Chips of the family differ: an AD9363A covers 325 MHz to 3.8 GHz. A firmware that does not report the range of its
    oscillators is not checked.

    Parameters
    ----------
    radio : str or iio.Context
        The radio.
    **frequencies_hz : float or None
        ``rx_lo_hz`` and ``tx_lo_hz``. None is not checked.

    Raises
    ------
    RadioRangeError
        If a frequency is outside the range that the radio reports; the message names the range and the chip.
    """
    with opened(radio) as context, _told(context, "read"):
        for name, channel in (("rx_lo_hz", _RX_LO), ("tx_lo_hz", _TX_LO)):
            wanted_hz, allowed = frequencies_hz.get(name), _Device(context).tuning_range(channel)
            if wanted_hz is None or allowed is None or wanted_hz in allowed:
                continue
            chip = context.attrs.get("ad9361-phy,model", "unknown")
            named = f"{_uri_of(context)}: {name} must be {allowed} for its chip ({chip})"
            raise RadioRangeError(f"{named}, got {wanted_hz:.12g}")


def make_ready(radio: str | iio.Context, tx_lo_hz: float | None) -> PlutoState:
    """Undo what other programs left, and return the state that the radio was found in.

    Afterwards the RX LO is on, the ENSM is in fdd, the loopback and the FPGA's filters are off, the tone generators are
    off, and the TX gain is at its lowest. With ``tx_lo_hz`` the TX LO is tuned and then powered up; with None it is
    powered down. Rates, bandwidths, the receiver's gain and the RX LO's frequency are left to the caller.

    Raises
    ------
    RadioError
        If there is no Pluto, or if it does not take one of these settings.
    """
    with opened(radio) as context, _told(context, "set up"):
        device = _Device(context)
        found = device.state()
        device.silence()
        device.set_ensm("fdd")
        device.set_loopback(0)
        device.set_fpga_factors(1, 1)
        device.power(_RX_LO, True)
        if tx_lo_hz is not None:
            device.tune(_TX_LO, round(tx_lo_hz))
            device.power(_TX_LO, True)
        left = hindrances(device.state(), tx_lo_hz is not None)
        if left:
            raise RadioError(f"{_uri_of(context)} does not do as it was told: {', '.join(left)}")
        return found


def silence(radio: str | iio.Context) -> None:
    """Set the TX gain to its lowest, power the TX LO down, and switch the tone generators off."""
    with opened(radio) as context, _told(context, "silence"):
        _Device(context).silence()


def set_loopback(radio: str | iio.Context, mode: int) -> None:
    """Set the loopback: 0 is off, 1 is the digital one inside the chip."""
    with opened(radio) as context, _told(context, "loop back"):
        _Device(context).set_loopback(mode)


def restore(radio: str | iio.Context, found: PlutoState) -> list[str]:
    """Set the radio to the state it was found in, as far as it lets us, and return what did not work.

    The transmitter is silenced first and powered up last. Two things stay as they are: the tone generators remain off,
    since a program that ends must not begin to transmit; and the coefficients of the chip's filter cannot be read, so
    that a filter of one's own must be loaded again.
    """
    try:
        with opened(radio) as context, _told(context, "restore"):
            return _Device(context).restore(found)
    except RadioError as error:
        return [str(error)]


class _Device:
    """The attributes of a Pluto by their meaning. Errors are OSError as libiio raises it."""

    def __init__(self, context: iio.Context) -> None:
        self._context = context
        self._devices = {name: context.find_device(name) for name in (_PHY, _RX, _TX)}
        for name, device in self._devices.items():
            if device is None:
                raise RadioError(f"{_uri_of(context)} is no Pluto: it has no {name}")

    def state(self) -> PlutoState:
        rate = self._number(_PHY, "voltage0", False, "sampling_frequency")
        return PlutoState(
            rx_lo_on=not self._number(_PHY, _RX_LO, True, "powerdown"),
            tx_lo_on=not self._number(_PHY, _TX_LO, True, "powerdown"),
            ensm_mode=str(self._devices[_PHY].attrs["ensm_mode"].value).strip(),
            loopback=self._loopback(),
            rx_decimation=self._fpga_factor(_RX, False, rate),
            tx_interpolation=self._fpga_factor(_TX, True, rate),
            tones_on=any(int(tone.attrs["raw"].value) for tone in self._tones()),
            fir_on=bool(self._number(_PHY, "out", False, "voltage_filter_fir_en")),
            sample_rate_hz=round(rate),
            rx_lo_hz=round(self._number(_PHY, _RX_LO, True, "frequency")),
            tx_lo_hz=round(self._number(_PHY, _TX_LO, True, "frequency")),
            rx_bandwidth_hz=round(self._number(_PHY, "voltage0", False, "rf_bandwidth")),
            tx_bandwidth_hz=round(self._number(_PHY, "voltage0", True, "rf_bandwidth")),
            gain_mode=str(self._attribute(_PHY, "voltage0", False, "gain_control_mode").value).strip(),
            rx_gain_db=self._number(_PHY, "voltage0", False, "hardwaregain"),
            tx_gain_db=self._number(_PHY, "voltage0", True, "hardwaregain"),
        )

    def silence(self) -> None:
        self._write(_PHY, "voltage0", True, "hardwaregain", ad9361.TX_GAIN_DB.low)
        self.power(_TX_LO, False)
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
        numbers = [] if available is None else [float(word) for word in re.findall(r"[\d.]+", available.value)]
        return Range(numbers[0], numbers[1], numbers[2], "Hz") if len(numbers) == 3 else None

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
        attempt("RX frequency", lambda: self.tune(_RX_LO, found.rx_lo_hz))
        attempt("RX LO", lambda: self.power(_RX_LO, found.rx_lo_on))
        attempt("gain", lambda: self._restore_gain(found))
        attempt("TX frequency", lambda: self.tune(_TX_LO, found.tx_lo_hz))
        attempt("ENSM", lambda: self.set_ensm(found.ensm_mode))
        attempt("TX gain", lambda: self._write(_PHY, "voltage0", True, "hardwaregain", found.tx_gain_db))
        attempt("TX LO", lambda: self.power(_TX_LO, found.tx_lo_on))
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
            raise RadioError(f"{_uri_of(self._context)} is no Pluto: {device} has no {channel}/{name}")
        return found.attrs[name]

    def _number(self, device: str, channel: str, output: bool, name: str) -> float:
        text = str(self._attribute(device, channel, output, name).value)
        number = re.match(r"\s*[-+]?[\d.]+", text)
        if number is None:
            raise RadioError(f"{_uri_of(self._context)}: {device} {channel}/{name} reads {text!r}, not a number")
        return float(number.group())

    def _write(self, device: str, channel: str, output: bool, name: str, value: float | str) -> None:
        self._attribute(device, channel, output, name).value = f"{value:g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def opened(radio: str | iio.Context) -> Iterator[iio.Context]:
    """Yield an open context as it is. Open a uri, and close it at the end, even if somebody holds an error of it."""
    if not isinstance(radio, str):
        yield radio
        return
    require(radio.isascii() and radio != "", "uri", repr(radio), "as in ip:192.168.2.1 or usb:1.2.5")
    try:
        context = iio.Context(radio)
    except OSError as error:
        raise RadioError(f"no Pluto at {radio}: {error.strerror or error}") from None
    try:
        context.set_timeout(_TIMEOUT_MILLISECONDS)
        yield context
    finally:
        context.__del__()
        context._context = None


@contextlib.contextmanager
def _told(context: iio.Context, doing: str) -> Iterator[None]:
    """libiio's errors, with the radio that they are about."""
    try:
        yield
    except OSError as error:
        raise RadioError(f"cannot {doing} {_uri_of(context)}: {error.strerror or error}") from error


def _uri_of(context: iio.Context) -> str:
    return str(context.attrs.get("uri", "the radio"))
