# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide one interface to several airs: ideal, fading (formulas), waveform (the DSP core) and live ones.

air = make_air(AirSettings(name="waveform", mode="onebit", snr_db=20.0), n_clients=2, seed=1)
uplink = air.uplink(votes, np.array([0, 1]), t=0)
"""

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.make import make_air
from fl_app.air.registry import AIR_NAMES, SIMULATED_NAMES
from fl_app.air.settings import AirSettings
from fl_app.air.votes import expected_vote_error_rate, vote_error_rate

__all__ = [
    "AIR_NAMES",
    "SIMULATED_NAMES",
    "Air",
    "AirSettings",
    "Unseen",
    "Uplink",
    "expected_vote_error_rate",
    "make_air",
    "vote_error_rate",
]
