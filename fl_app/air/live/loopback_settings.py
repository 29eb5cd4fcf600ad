# SPDX-License-Identifier: GPL-3.0-or-later
"""What are the loopback flowgraphs to be, from what the air is? Imports no GNU Radio."""

from __future__ import annotations

from typing import Any

from fl_app.air.bursts import Burst, longest_burst_symbols, plan
from fl_app.air.settings import AirSettings
from oac_blocks.bench import settings as bench

_SAME = (
    "snr_db", "noise_alpha", "fading", "rician_k_db", "profile", "clock_ppm", "clock_walk_ppm", "carrier_hz",
    "repeats", "groups", "sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls",
)  # fmt: skip
_SAME_ANALOG = (
    "noise_alpha", "fading", "rician_k_db", "profile", "inversion", "least_magnitude", "pilot_symbols",
    "pilot_snr_db", "sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls",
)  # fmt: skip


def burst_votes(settings: AirSettings) -> int:
    """The most votes that a burst of the flowgraph carries."""
    return bench.burst_votes(settings.numerology(), settings.repeats)


def loopback_settings(settings: AirSettings, clients: int, seed: int) -> dict[str, Any]:
    """Names that both have mean the same."""
    return {
        "clients": clients,
        "votes": burst_votes(settings),
        "scheme": settings.scheme.waveform,
        "seed": seed,
        **_same(settings, _SAME),
    }


def analog_loopback_settings(settings: AirSettings, clients: int, seed: int, mean_gain: float) -> dict[str, Any]:
    """Noise and scale are not among them: each round has its own."""
    return {
        "clients": clients,
        "symbols": longest_burst_symbols(_in_short_bursts(settings)) - settings.groups,
        "seed": seed,
        "mean_gain": mean_gain,
        "adc_bits": settings.adc_bits or 0,
        **_same(settings, _SAME_ANALOG),
    }


def analog_plan(k: int, settings: AirSettings) -> list[Burst]:
    """The bursts that carry k entries through the analog flowgraph."""
    return plan(k, _in_short_bursts(settings))


def _in_short_bursts(settings: AirSettings) -> AirSettings:
    most = min(settings.max_burst_symbols, bench.BURST_SYMBOLS + settings.groups)
    return settings.with_values(max_burst_symbols=most)


def _same(settings: AirSettings, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names}
