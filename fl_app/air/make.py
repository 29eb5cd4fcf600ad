# SPDX-License-Identifier: GPL-3.0-or-later
"""Which class is the air of this name? What needs GNU Radio or a radio is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from fl_app.air.base import Air
from fl_app.air.fading import FadingAir
from fl_app.air.ideal import IdealAir
from fl_app.air.settings import AirSettings
from fl_app.air.waveform import WaveformAir

_AIRS: dict[str, Callable[[AirSettings, int, int], Air]] = {
    "ideal": IdealAir,
    "fading": FadingAir,
    "waveform": WaveformAir,
}


def make_air(settings: AirSettings, n_clients: int, seed: int) -> Air:
    """The air that ``settings.name`` names, for clients 0 to n_clients - 1. The seed is the run's."""
    if settings.name == "gnuradio":
        try:
            from fl_app.air.gnuradio import GnuradioAir
        except ModuleNotFoundError as error:
            raise ValueError(f"the air 'gnuradio' needs GNU Radio, and there is no module {error.name!r}") from None
        return GnuradioAir(settings, n_clients, seed)
    return _AIRS[settings.name](settings, n_clients, seed)
