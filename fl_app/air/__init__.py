# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide one interface to several airs: ideal, fading (formulas), waveform (the DSP core) and live ones.

air = make_air(AirSettings(name="waveform", mode="onebit", snr_db=20.0), n_clients=2, seed=1)
uplink = air.uplink(votes, np.array([0, 1]), t=0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_app.air.base import Air as Air
    from fl_app.air.base import Unseen as Unseen
    from fl_app.air.base import Uplink as Uplink
    from fl_app.air.make import make_air as make_air
    from fl_app.air.registry import AIR_NAMES as AIR_NAMES
    from fl_app.air.registry import SIMULATED_NAMES as SIMULATED_NAMES
    from fl_app.air.settings import AirSettings as AirSettings
    from fl_app.air.votes import expected_vote_error_rate as expected_vote_error_rate
    from fl_app.air.votes import vote_error_rate as vote_error_rate

# Names are imported when they are first used: a command that only reads settings does without scipy.
_HOMES = {
    "AIR_NAMES": "registry",
    "SIMULATED_NAMES": "registry",
    "Air": "base",
    "AirSettings": "settings",
    "Unseen": "base",
    "Uplink": "base",
    "expected_vote_error_rate": "votes",
    "make_air": "make",
    "vote_error_rate": "votes",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fl_app.air' has no attribute {name!r}")
    return getattr(import_module(f"fl_app.air.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
