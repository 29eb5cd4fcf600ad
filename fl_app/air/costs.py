# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what an uplink costs besides time: the energy that a client transmits, and the bandwidth that is occupied."""

from __future__ import annotations

from fl_app.air.base import Uplink
from fl_app.air.settings import AirSettings


def joules_per_client(uplink: Uplink, settings: AirSettings) -> float:
    """Return the energy in joules that a client transmits in this uplink: transmit power times its time on the air."""
    seconds = uplink.air_seconds if uplink.client_seconds is None else uplink.client_seconds
    return settings.tx_power_w * seconds


def occupied_hertz(uplink: Uplink, settings: AirSettings) -> float | None:
    """Return the bandwidth in Hz from the lowest to the highest active subcarrier; None if nothing is on the air.

    The sample rate is that of the symbols on the air: radios may have another rate than the config says.
    """
    if not uplink.symbols or not uplink.air_seconds:
        return None
    num = settings.numerology()
    sample_rate_hz = uplink.symbols * num.symbol_samples / uplink.air_seconds
    return sample_rate_hz * (num.active_subcarriers + num.dc_nulls) / num.fft_size
