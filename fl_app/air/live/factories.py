# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the airs that need GNU Radio or radios; what they need is imported only here, when such an air is made."""

from __future__ import annotations

from fl_app.air.base import Air
from fl_app.air.settings import AirSettings
from oac_blocks.bench.config import RadiosSection
from oac_blocks.bench.section import ConfigError
from oac_blocks.dsp.checks import integer, require


def loopback_air(settings: AirSettings, n_clients: int, seed: int) -> Air:
    """Make the air of a GNU Radio flowgraph in loopback, for votes or for amplitudes."""
    try:
        from fl_app.air.live.gnuradio import GnuradioAir
        from fl_app.air.live.gnuradio_analog import AnalogGnuradioAir
    except ModuleNotFoundError as error:
        raise ValueError(f"the air 'gnuradio' needs GNU Radio, but there is no module {error.name!r}") from None
    return (AnalogGnuradioAir if settings.scheme.coherent else GnuradioAir)(settings, n_clients, seed)


def radio_air(settings: AirSettings, n_clients: int, seed: int, radios: RadiosSection | None, min_clients: int) -> Air:
    """Make the air of radios that one process drives with a thread for each."""
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
