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

import iio

from oac_blocks.radio.base import RadioError, RadioRangeError
from oac_blocks.radio.pluto_device import RX_LO, TX_LO, PlutoState, opened

__all__ = ["PlutoState", "check_tuning", "hindrances", "make_ready", "read_state", "restore", "set_loopback", "silence"]


def read_state(radio: str | iio.Context) -> PlutoState:
    """Return what the radio is set to. RadioError if there is none, or it is not a Pluto."""
    with opened(radio, "read") as device:
        return device.state()


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
    with opened(radio, "read") as device:
        for name, oscillator in (("rx_lo_hz", RX_LO), ("tx_lo_hz", TX_LO)):
            wanted_hz, allowed = frequencies_hz.get(name), device.tuning_range(oscillator)
            if wanted_hz is None or allowed is None or wanted_hz in allowed:
                continue
            chip = device.about.get("ad9361-phy,model", "unknown")
            raise RadioRangeError(f"{device.uri}: {name} must be {allowed} for its chip ({chip}), got {wanted_hz:.12g}")


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
    with opened(radio, "set up") as device:
        found = device.state()
        device.silence()
        device.set_ensm("fdd")
        device.set_loopback(0)
        device.set_fpga_factors(1, 1)
        device.power(RX_LO, True)
        if tx_lo_hz is not None:
            device.tune(TX_LO, round(tx_lo_hz))
            device.power(TX_LO, True)
        left = hindrances(device.state(), tx_lo_hz is not None)
        if left:
            raise RadioError(f"{device.uri} does not do as it was told: {', '.join(left)}")
        return found


def silence(radio: str | iio.Context) -> None:
    """Set the TX gain to its lowest, power the TX LO down, and switch the tone generators off."""
    with opened(radio, "silence") as device:
        device.silence()


def set_loopback(radio: str | iio.Context, mode: int) -> None:
    """Set the loopback: 0 is off, 1 is the digital one inside the chip."""
    with opened(radio, "loop back") as device:
        device.set_loopback(mode)


def restore(radio: str | iio.Context, found: PlutoState) -> list[str]:
    """Set the radio to the state it was found in, as far as it lets us, and return what did not work.

    The transmitter is silenced first and powered up last. Two things stay as they are: the tone generators remain off,
    since a program that ends must not begin to transmit; and the coefficients of the chip's filter cannot be read, so
    that a filter of one's own must be loaded again.
    """
    try:
        with opened(radio, "restore") as device:
            return device.restore(found)
    except RadioError as error:
        return [str(error)]
