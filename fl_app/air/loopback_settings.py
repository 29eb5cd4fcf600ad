# SPDX-License-Identifier: GPL-3.0-or-later
"""What is the loopback flowgraph to be, from what the air is? Imports no GNU Radio."""

from __future__ import annotations

import dataclasses
from typing import Any

from fl_app.air.settings import AirSettings

BURST_SYMBOLS = 228  # of payload in a burst: 21,880 votes, as in the published prototype
_SAME = (
    "snr_db", "noise_alpha", "fading", "rician_k_db", "profile", "clock_ppm", "clock_walk_ppm", "carrier_hz",
    "repeats", "groups", "sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls",
)  # fmt: skip


def burst_votes(settings: AirSettings) -> int:
    """The most votes that a burst of the flowgraph carries."""
    return max(1, BURST_SYMBOLS * settings.numerology().votes_per_symbol // settings.repeats)


def loopback_settings(settings: AirSettings, clients: int, seed: int) -> dict[str, Any]:
    """Names that both have mean the same."""
    values = dataclasses.asdict(settings)
    same = {name: values[name] for name in _SAME}
    return {"clients": clients, "votes": burst_votes(settings), "seed": seed, **same}
