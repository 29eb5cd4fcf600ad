# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the air with a given name; its module is imported only then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fl_app.air.base import Air
from fl_app.air.bursts import early_samples
from fl_app.air.foreign import ForeignAir
from fl_app.air.registry import AIRS
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.channel.fading import PROFILES, tap_powers
from oac_blocks.dsp.receive.burst_snr import null_bins
from oac_blocks.plugins import PluginError, call, is_factory

if TYPE_CHECKING:
    from oac_blocks.bench.config import RadiosSection

_log = logging.getLogger(__name__)

_MOST_LATE_POWER = 0.01  # share of a channel's mean power that may arrive after the prefix without a warning


def make_air(
    settings: AirSettings,
    n_clients: int,
    seed: int,
    radios: RadiosSection | None = None,
    min_clients: int = 1,
    own: Any = None,
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
    own
        An air of a Python program, or a class or function that makes it, in place of the one that the settings name.
    """
    if settings.name in ("waveform", "gnuradio", "pluto") and not len(null_bins(settings.numerology())):
        _log.warning(
            "[air] active_subcarriers = %d with fft_size = %d leaves too few subcarriers beside the band to see the "
            "noise: the SNR at the server is not measured; use fewer active subcarriers",
            settings.active_subcarriers,
            settings.fft_size,
        )
    if settings.name in ("waveform", "gnuradio"):
        _warn_of_late_echoes(settings)
    title = f"[air] name = {settings.name!r}"
    if own is None:
        try:
            own = AIRS.load(settings.name)
        except PluginError as error:
            raise PluginError(f"[air] name = {error}") from None
    if is_factory(own, "uplink"):
        facts = {
            "settings": settings,
            "n_clients": n_clients,
            "seed": seed,
            "scheme": settings.scheme,
            "radios": radios,
            "min_clients": min_clients,
        }
        own = call(own, title, settings.args, facts)
    return _checked(own, settings, n_clients, title)


def _warn_of_late_echoes(settings: AirSettings) -> None:
    """Log a warning if more than a hundredth of the power arrives after the cyclic prefix."""
    powers = tap_powers(PROFILES[settings.profile], settings.sample_rate_hz)
    room = settings.cp_samples - early_samples(settings)
    late = float(powers[room + 1 :].sum())
    if late > _MOST_LATE_POWER:
        _log.warning(
            "[air] profile = %r lasts %d samples at %g Msps, and the server's FFT window leaves %d of the %d samples "
            "of the prefix to echoes: %.1f %% of the power arrives later and disturbs the next symbol; use a longer "
            "cp_samples, a lower sample_rate_hz or another profile",
            settings.profile,
            len(powers) - 1,
            settings.sample_rate_hz / 1e6,
            room,
            settings.cp_samples,
            100 * late,
        )


def _checked(air: Any, settings: AirSettings, n_clients: int, title: str) -> Air:
    """Return an air as it is, or wrap an object that has ``uplink(payload, clients, t)`` alone."""
    if isinstance(air, Air):
        if not hasattr(air, "scheme"):
            air.scheme = settings.scheme
        return air
    if callable(getattr(air, "uplink", None)):
        return ForeignAir(air, settings, n_clients, title)
    raise PluginError(f"{title}: {type(air).__name__} has no method uplink(payload, clients, t)")
