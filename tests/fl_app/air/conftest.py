# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that several tests begin with."""

from typing import Any

import pytest

PERFECT: dict[str, Any] = {
    "snr_db": None,
    "fading": "none",
    "clock_ppm": 0.0,
    "clock_walk_ppm": 0.0,
    "cfo_residual_hz": 0.0,
    "pilot_snr_db": None,
    "timing_sigma_samples": 0.0,
    "pilot_timing_sigma_samples": 0.0,
    "adc_bits": None,
}


@pytest.fixture(scope="session")
def perfect() -> dict[str, Any]:
    """Every impairment off: what is left is the waveform alone."""
    return dict(PERFECT)
