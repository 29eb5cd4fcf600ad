# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregate over the air in a Flower app: a strategy around the app's own, and a mod for its clients.

    strategy = OverTheAir(FedAvg(), air="waveform", policy="fair-k", rho=0.2)      # in the ServerApp
    app = ClientApp(mods=[over_the_air_mod])                                       # in the ClientApp

Both need the package flwr, which the extra ``flower`` installs. They are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_app.flower.mod import over_the_air_mod as over_the_air_mod
    from fl_app.flower.strategy import OverTheAir as OverTheAir

_HOMES = {"OverTheAir": "fl_app.flower.strategy", "over_the_air_mod": "fl_app.flower.mod"}
__all__ = ["OverTheAir", "over_the_air_mod"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fl_app.flower' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ImportError as error:  # Flower is missing, or older than what is imported from it
        if error.name is None or error.name.partition(".")[0] != "flwr":
            raise
        raise ImportError(
            f"fl_app.flower.{name} needs Flower 1.41 or later, which is not installed here ({error}); "
            "install it with: pip install 'gr-oac[flower]'"
        ) from error
