# SPDX-License-Identifier: GPL-3.0-or-later
"""Which radios are there, and what they say of themselves: read through libiio, with nothing set and nothing sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import iio

from oac_blocks.radio import pluto_state
from oac_blocks.radio.base import RadioError


@dataclass(frozen=True)
class RadioInfo:
    uri: str
    model: str
    serial: str
    firmware: str
    temperature_celsius: float
    sample_rate_hz: float  # as it is set now
    lowest_rate_hz: float  # as the device has it now: a filter in its chip may lower it
    highest_rate_hz: float
    state: pluto_state.PlutoState

    @property
    def hindrances(self) -> list[str]:
        """What would keep a program from streaming that does not set it right."""
        return pluto_state.hindrances(self.state, transmits=True)


def scan() -> dict[str, str]:
    """Uris of what libiio finds on USB and in the local network, and what it says of each."""
    try:
        return dict(iio.scan_contexts())
    except OSError as error:
        raise RadioError(
            f"libiio cannot scan here ({error.strerror or error}): name the radios by their uris"
        ) from None


def probe(uri: str) -> RadioInfo:
    """RadioError if nobody is there, or it is no AD9361 device."""
    with pluto_state.opened(uri) as context:
        try:
            state = pluto_state.read_state(context)
            chip = context.find_device("ad9361-phy")
            attributes, receiver = context.attrs, chip.find_channel("voltage0", False)
            low, high = _range(receiver.attrs["sampling_frequency_available"].value)
            return RadioInfo(
                uri,
                attributes.get("hw_model", "unknown"),
                attributes.get("hw_serial", ""),
                attributes.get("fw_version", "unknown"),
                int(_temperature(chip)) / 1000,
                float(receiver.attrs["sampling_frequency"].value),
                low,
                high,
                state,
            )
        except OSError as error:
            raise RadioError(f"no Pluto at {uri}: {error.strerror or error}") from None
        except (AttributeError, KeyError, ValueError) as error:
            raise RadioError(f"{uri} is no Pluto that can be read: {error}") from None


def _temperature(chip: Any) -> str:
    return str(chip.find_channel("temp0", False).attrs["input"].value)


def _range(text: str) -> tuple[float, float]:
    """Of "[low step high]"."""
    numbers = [float(word) for word in re.findall(r"[\d.]+", text)]
    if not numbers:
        raise ValueError(f"no range: {text!r}")
    return min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
