# SPDX-License-Identifier: GPL-3.0-or-later
"""Which radios are there, and what they say of themselves: read through libiio, with nothing set and nothing sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import iio

from oac_blocks.dsp.checks import require
from oac_blocks.radio.base import RadioError

_TIMEOUT_MILLISECONDS = 5000


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
    require(isinstance(uri, str) and uri.isascii() and uri != "", "uri", repr(uri), "as in ip:192.168.2.1 or usb:1.2.5")
    try:
        context = iio.Context(uri)
        context.set_timeout(_TIMEOUT_MILLISECONDS)
        chip = context.find_device("ad9361-phy")
        if chip is None:
            raise RadioError(f"{uri} is no Pluto: it has no ad9361-phy")
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
