# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the air with a given name. Airs that need GNU Radio or a radio are imported only when they are used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from fl_app.air.base import Air
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.fading import FadingAir
from fl_app.air.simulation.ideal import IdealAir
from fl_app.air.simulation.waveform import WaveformAir
from oac_blocks.bench.section import ConfigError
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.receive.burst_snr import null_bins

if TYPE_CHECKING:
    from oac_blocks.bench.config import RadiosSection

_log = logging.getLogger(__name__)

_AIRS: dict[str, Callable[[AirSettings, int, int], Air]] = {
    "ideal": IdealAir,
    "fading": FadingAir,
    "waveform": WaveformAir,
}


def make_air(
    settings: AirSettings, n_clients: int, seed: int, radios: RadiosSection | None = None, min_clients: int = 1
) -> Air:
    """Make the air that ``settings.name`` names, for clients 0 to n_clients - 1; the air is not opened.

    Parameters
    ----------
    settings
        Settings of the air.
    n_clients
        Number of clients.
    seed
        Seed of the run.
    radios
        Section [radios] of the config, for the air 'pluto'.
    min_clients
        Fewest clients whose votes must be heard in a burst of radios.
    """
    if settings.name not in ("ideal", "fading") and not len(null_bins(settings.numerology())):
        _log.warning(
            "[air] active_subcarriers = %d with fft_size = %d leaves too few subcarriers beside the band to see the "
            "noise: the SNR at the server is not measured; use fewer active subcarriers",
            settings.active_subcarriers,
            settings.fft_size,
        )
    if settings.name == "pluto":
        integer("n_clients", n_clients, 1)
        integer("seed", seed, 0)
        require(radios is not None, "radios", None, "the section [radios], for the air 'pluto'")
        assert radios is not None
        if radios.transport == "flowgraphs":
            raise ConfigError(
                "[radios] transport = 'flowgraphs': a flowgraph for each radio needs a server and clients; "
                "run `fl_app up CONFIG`, or drive all radios from one process with --set radios.transport=threads"
            )
        from fl_app.air.live.pluto import PlutoAir

        return PlutoAir(settings, n_clients, seed, radios, min_clients)
    if settings.name == "gnuradio":
        try:
            from fl_app.air.live.gnuradio import GnuradioAir
            from fl_app.air.live.gnuradio_analog import AnalogGnuradioAir
        except ModuleNotFoundError as error:
            raise ValueError(f"the air 'gnuradio' needs GNU Radio, but there is no module {error.name!r}") from None
        return (AnalogGnuradioAir if settings.scheme.coherent else GnuradioAir)(settings, n_clients, seed)
    return _AIRS[settings.name](settings, n_clients, seed)
