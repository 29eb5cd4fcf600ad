# SPDX-License-Identifier: GPL-3.0-or-later
"""List the airs by name. This module imports none of them: some need GNU Radio or a radio's libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oac_blocks.plugins import OWN, Registry

# A factory returns an `Air`. It may have the parameters settings, n_clients, seed, scheme, radios and min_clients.
AIRS: Registry[Callable[..., Any]] = Registry(
    "air",
    "gr_oac.airs",
    {
        "ideal": "fl_app.air.simulation.ideal:IdealAir",
        "fading": "fl_app.air.simulation.fading:FadingAir",
        "waveform": "fl_app.air.simulation.waveform:WaveformAir",
        "gnuradio": "fl_app.air.live.factories:loopback_air",
        "pluto": "fl_app.air.live.factories:radio_air",
        "digital": "fl_app.air.simulation.digital:DigitalAir",
    },
)
AIR_NAMES = tuple(offer.name for offer in AIRS.offers() if offer.origin == OWN)
SIMULATED_NAMES = ("ideal", "fading", "waveform", "digital")  # a round depends on its number alone
