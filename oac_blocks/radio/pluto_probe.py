# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Plutos and read what they say of themselves, through libiio. Nothing is set and nothing is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

import iio

from oac_blocks.radio import pluto_state
from oac_blocks.radio.base import RadioError, RadioInfo


@dataclass(frozen=True)
class PlutoInfo(RadioInfo):
    """What a Pluto says of itself, and the state that it is in."""

    state: pluto_state.PlutoState

    @property
    def hindrances(self) -> list[str]:
        """Return, in words, what would keep a program from streaming if it does not set the radio up itself."""
        return pluto_state.hindrances(self.state, transmits=True)

    @property
    def switches(self) -> dict[str, str]:
        """Return which oscillators are powered, and the mode of the chip's state machine."""
        state = self.state
        powered = {"RX LO": state.rx_lo_on, "TX LO": state.tx_lo_on}
        return {**{name: "on" if on else "down" for name, on in powered.items()}, "ENSM": state.ensm_mode}


def scan() -> dict[str, str]:
    """Return the uris of the devices that libiio finds on USB and in the local network, and a description of each."""
    try:
        return dict(iio.scan_contexts())
    except OSError as error:
        raise RadioError(
            f"libiio cannot scan here ({error.strerror or error}): name the radios by their uris"
        ) from None


def probe(uri: str) -> PlutoInfo:
    """Return what the radio at ``uri`` says of itself. Raise RadioError if there is none, or it is not a Pluto."""
    with pluto_state.opened(uri) as context:
        return describe(uri, context)


def describe(uri: str, context: iio.Context) -> PlutoInfo:
    """Return what the radio of an open context says of itself."""
    try:
        state = pluto_state.read_state(context)
        chip = context.find_device("ad9361-phy")
        attributes, receiver = context.attrs, chip.find_channel("voltage0", False)
        low, high = _range(receiver.attrs["sampling_frequency_available"].value)
        return PlutoInfo(
            uri,
            attributes.get("hw_model", "unknown"),
            attributes.get("hw_serial", ""),
            attributes.get("fw_version", "unknown"),
            int(chip.find_channel("temp0", False).attrs["input"].value) / 1000,
            float(receiver.attrs["sampling_frequency"].value),
            low,
            high,
            state,
        )
    except OSError as error:
        raise RadioError(f"no Pluto at {uri}: {error.strerror or error}") from None
    except (AttributeError, KeyError, ValueError) as error:
        raise RadioError(f"{uri} is no Pluto that can be read: {error}") from None


def _range(text: str) -> tuple[float, float]:
    """Return both ends of a range that is written as ``[low step high]``."""
    numbers = [float(word) for word in re.findall(r"[\d.]+", text)]
    if not numbers:
        raise ValueError(f"no range: {text!r}")
    return min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
