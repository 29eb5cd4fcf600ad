# SPDX-License-Identifier: GPL-3.0-or-later
"""Model one client's path to the server during one burst: its clock, oscillator, timing and multipath.

The draws are named by round, burst and client. So a pilot and a burst over the same path meet the same channel. This
is reciprocity, and it lets a client of analog mode learn its channel.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_app.air.pilots import residual_cfo_hz
from fl_app.air.settings import AirSettings
from fl_app.core.streams import stream
from oac_blocks.dsp.channel.multiple_access import Link, Receiver, clock_rates_ppm, draw_impulse_responses, transmit
from oac_blocks.dsp.waveform.frame import FrameLayout

_SILENT_RECEIVER = Receiver()  # the noise is the server's; it is added to the sum of all clients


@dataclass(frozen=True)
class Path:
    """Carry the bursts of one client in one round to the server."""

    link: Link
    carrier: complex  # phase of the client's oscillator at the beginning of the burst, as a complex factor
    sample_rate_hz: float
    seed: int
    where: tuple[int, int, int]  # round, burst, client

    def carry(self, burst: npt.NDArray[np.complex64], samples: int) -> npt.NDArray[np.complex64]:
        """Return a burst (n,) as the server receives it, with a length of ``samples``."""
        rng = stream(self.seed, "air echoes", *self.where)
        arrived = transmit(burst[None], [self.link], _SILENT_RECEIVER, self.sample_rate_hz, rng, samples).samples
        arrived *= np.complex64(self.carrier)
        return arrived

    def draw(self, samples: int) -> tuple[npt.NDArray[np.complex64], npt.NDArray[np.float64]]:
        """Return the channel's taps with the carrier's phase and the clock's rates (steps,) in ppm, as in `carry`."""
        rng = stream(self.seed, "air echoes", *self.where)
        taps = draw_impulse_responses([self.link], self.sample_rate_hz, rng)[0]
        rates_ppm, _ = clock_rates_ppm([self.link], self.sample_rate_hz, samples, rng)
        return taps * np.complex64(self.carrier), rates_ppm[0]


def draw_echoes(
    settings: AirSettings, seed: int, where: tuple[int, ...], purpose: str = "air echoes"
) -> npt.NDArray[np.complex64]:
    """Draw the multipath (taps,) of this round, burst and client, with the phase of its oscillator."""
    taps = draw_impulse_responses([_link(settings)], settings.sample_rate_hz, stream(seed, purpose, *where))[0]
    return taps * np.complex64(_oscillator(seed, where)[2])


def draw_path(
    settings: AirSettings,
    clock_ppm: float,
    layout: FrameLayout,
    nominal_samples: int,
    seed: int,
    where: tuple[int, int, int],
    offset_samples: float = 0.0,
) -> Path:
    """Draw the path of this round, burst and client.

    A burst without timing error arrives at ``nominal_samples`` on the server's clock. Calibration follows the sync
    symbols, which are spread over the whole burst, so that it aligns the middle of the burst: a client with a fast
    clock begins late by half of what it gains until the end. ``offset_samples`` is the delay of the middle; without a
    loop that measures it, the delay is drawn.
    """
    late, offset, carrier = _oscillator(seed, where)
    delay = nominal_samples + 0.5e-6 * clock_ppm * layout.samples + offset_samples
    if settings.calibration == "assumed":
        delay += settings.timing_sigma_samples * late
    cfo_hz = residual_cfo_hz(settings) * offset
    if not settings.cfo_correction:
        cfo_hz += 1e-6 * clock_ppm * settings.carrier_hz
    link = dataclasses.replace(
        _link(settings),
        cfo_hz=float(cfo_hz),
        clock_ppm=float(clock_ppm),
        clock_walk_ppm=settings.clock_walk_ppm,
        delay_samples=float(delay),
    )
    return Path(link, carrier, settings.sample_rate_hz, seed, where)


def _link(settings: AirSettings) -> Link:
    """Return a link with the fading of the settings and nothing else."""
    return Link(fading=settings.fading, rician_k_db=settings.rician_k_db, profile=settings.profile)


def _oscillator(seed: int, where: tuple[int, ...]) -> tuple[float, float, complex]:
    """Draw the timing error and the frequency offset, both of variance 1, and the carrier's phase as a factor."""
    rng = stream(seed, "air oscillator", *where)
    late, offset, phase = rng.standard_normal(), rng.standard_normal(), rng.random()
    return late, offset, complex(np.exp(2j * np.pi * phase))
