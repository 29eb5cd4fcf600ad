# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Plutos and read what they say of themselves, through libiio. Nothing is set and nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass

import iio

from oac_blocks.radio import pluto_state
from oac_blocks.radio.base import RadioError, RadioInfo
from oac_blocks.radio.pluto_device import opened


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


def probe(radio: str | iio.Context, uri: str = "") -> PlutoInfo:
    """Return what a radio says of itself; ``radio`` is its uri, or an open context of ``uri``.

    Raise RadioError if there is none, or it is not a Pluto.
    """
    with opened(radio, "read") as device:
        state, rates = device.state(), device.sample_rates_hz()
        return PlutoInfo(
            uri if uri else str(radio),
            device.about.get("hw_model", "unknown"),
            device.about.get("hw_serial", ""),
            device.about.get("fw_version", "unknown"),
            device.temperature_celsius(),
            float(state.sample_rate_hz),
            rates.low,
            rates.high,
            state,
        )
