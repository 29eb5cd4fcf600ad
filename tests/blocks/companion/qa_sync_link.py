# SPDX-License-Identifier: GPL-3.0-or-later
"""Flowgraph sync_link as someone at its sliders sees it."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from oac_blocks.dsp.preamble import trigger
from tests.blocks.companion.companion_core import call

WATCHER = Path(__file__).with_name("watch_sync_link.py")
SAMPLE_RATE_HZ = 20e6
SETTINGS = [
    {"cfo_khz": 120.0, "snr_db": 10.0, "delay": 10.25, "ppm": 0.0},
    {"cfo_khz": -500.0},  # the whole range of the slider, at once
    {"cfo_khz": 500.0},
    {"snr_db": 30.0, "delay": 77.65},
    {"tracking": True},
    {"cfo_khz": 400.0, "snr_db": 0.0},
]


def sigmas(snr):
    """Standard deviations of frequency (rad/sample) and time (samples) that a fit of both can have at best.

    Cramer-Rao for s(t - time) e^(j cfo t) of unknown amplitude in white noise: the derivatives to both, less what the
    signal itself explains of them.
    """
    s = trigger().astype(complex)
    middle = np.arange(len(s)) - (len(s) - 1) / 2
    slope = np.fft.ifft(2j * np.pi * np.fft.fftfreq(len(s)) * np.fft.fft(s))
    derivatives = np.stack([1j * middle * s, -slope])
    derivatives = derivatives - np.outer(derivatives @ s.conj(), s) / np.vdot(s, s)
    information = 2 * snr * (derivatives.conj() @ derivatives.T).real
    return np.sqrt(np.diag(np.linalg.inv(information)))


@pytest.mark.slow
def test_frequency_snr_and_fraction_follow_the_sliders(tmp_path, compiled):
    program = compiled("sync_link")
    ran = call("xvfb-run", "-a", sys.executable, WATCHER, program, json.dumps(SETTINGS), home=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    now = {}
    for settings, measured in zip(SETTINGS, json.loads(ran.stdout.splitlines()[-1]), strict=True):
        now |= settings
        cfo, snr_db, fraction = np.array(measured, float).T
        cfo_sigma, time_sigma = sigmas(10 ** (now["snr_db"] / 10))
        cfo_set = 2 * math.pi * 1e3 * now["cfo_khz"] / SAMPLE_RATE_HZ
        assert np.abs(cfo - cfo_set).max() < 6 * cfo_sigma, now
        beside = fraction - now["delay"]
        assert np.abs(beside - np.rint(beside)).max() < 6 * time_sigma, now
        # One trigger tells noise from 280 samples, to 1/sqrt(280) = 6 % or 0.26 dB; at 0 dB the signal adds as much.
        assert abs(np.median(snr_db) - now["snr_db"]) < 0.5, now
