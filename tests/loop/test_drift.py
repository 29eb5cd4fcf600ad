# SPDX-License-Identifier: GPL-3.0-or-later
"""A clock's rate from when triggers were heard: noise, jumps and steps."""

import math

import numpy as np
import pytest

from oac_blocks.loop.drift import ClockDrift

INTERVAL = 262_144.0


def hear(drift, ppm, rounds, first=0, offset=0.0, sigma=0.0, seed=1):
    """``rounds`` triggers by a clock of this rate; ``offset`` is what its count stands at in round ``first``."""
    rng = np.random.default_rng(seed)
    for i in range(rounds):
        server = (first + i) * INTERVAL
        client = server + offset + 1e-6 * ppm * i * INTERVAL + sigma * rng.standard_normal()
        drift.heard(client, server, max(sigma, 1e-3))
    return offset + 1e-6 * ppm * rounds * INTERVAL


def test_two_triggers_give_a_rate():
    drift = ClockDrift(20e6, 0.1)
    assert math.isnan(drift.ppm)
    hear(drift, 17.5, 2)
    assert drift.ppm == pytest.approx(17.5, abs=0.01)


def test_noise_is_averaged_to_the_filters_own_uncertainty():
    drift = ClockDrift(20e6, 0.001)
    hear(drift, -20.0, 200, sigma=0.02)
    assert abs(drift.ppm + 20.0) < 4 * drift.sigma_ppm
    assert drift.sigma_ppm < 1e6 * 0.02 * math.sqrt(2) / INTERVAL / 5  # far better than any two triggers


def test_a_jump_of_the_stream_leaves_the_rate():
    drift = ClockDrift(20e6, 0.1)
    end = hear(drift, 20.0, 20)
    hear(drift, 20.0, 6, first=20, offset=end + 1000.0)
    assert drift.ppm == pytest.approx(20.0, abs=0.05)


@pytest.mark.parametrize("ppm", [100.0, -60.0, 25.0, 21.0])
def test_a_step_of_the_rate_is_found(ppm):
    drift = ClockDrift(20e6, 0.1)
    end = hear(drift, 20.0, 20)
    hear(drift, ppm, 12, first=20, offset=end)
    assert drift.ppm == pytest.approx(ppm, abs=0.2)
