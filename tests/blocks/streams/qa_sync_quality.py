# SPDX-License-Identifier: GPL-3.0-or-later
"""The sync detector beside GNU Radio's corr_est_cc, with the functions that draw the figure in docs/sync.md."""

import importlib.util

import numpy as np
import pytest

from oac_blocks.dsp import bounds
from tests.support.paths import ROOT

FIGURE = ROOT / "docs" / "figures" / "sync.py"


@pytest.fixture(scope="module")
def figure():
    spec = importlib.util.spec_from_file_location("sync_figure", FIGURE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("name", ["corr_est_cc", "bank", "tracking"])
def test_false_alarms_are_what_the_comparison_says(figure, name):
    """Two million samples: 20 are expected, and 3 standard deviations are 13."""
    assert 7 <= figure.false_alarm_rate(name, 2_000_000, rng()) * 2_000_000 <= 33


@pytest.mark.parametrize("name", ["bank", "tracking"])
def test_within_a_decibel_of_corr_est_without_frequency_offset(figure, name):
    theirs = figure.detected("corr_est_cc", -12.0, 0.0, 300, rng())
    three_deviations = 3 * np.sqrt(2 * theirs * (1 - theirs) / 300)
    assert figure.detected(name, -11.0, 0.0, 300, rng()) > theirs - three_deviations


@pytest.mark.parametrize("name", ["bank", "tracking"])
def test_ahead_of_corr_est_from_0015_rad_on(figure, name):
    for cfo in (0.015, 0.03, 0.1):
        assert (
            figure.detected(name, -10.0, cfo, 100, rng()) > figure.detected("corr_est_cc", -10.0, cfo, 100, rng()) + 0.3
        )


@pytest.mark.parametrize("cfo", [0.0, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("name", ["bank", "tracking"])
def test_all_are_detected_at_minus_5_db(figure, name, cfo):
    assert figure.detected(name, -5.0, cfo, 100, rng()) == 1.0


@pytest.mark.parametrize("snr_db", [0.0, 15.0])
def test_time_is_within_115_hundredths_of_the_bound(figure, snr_db):
    """The RMS of 400 errors is known to 1 / sqrt(800) = 3.5 %."""
    bound = np.sqrt(bounds.joint_crlb(figure.TRIGGER, 10 ** (snr_db / 10))[0])
    assert figure.timing_rmse("tracking", snr_db, 0.05, 400, rng()) < 1.15 * bound
