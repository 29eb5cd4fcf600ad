# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the multiple-access channel: each burst has its own clock, oscillator and multipath.

A client with a clock that is fast by ``clock_ppm`` sends ``1 + clock_ppm 1e-6`` of its samples while the server takes
one. Sample m of its burst arrives at server time ``stream_offset + delay + m / (1 + ppm 1e-6)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel import noise
from oac_blocks.dsp.channel.crystal import walk_path_ppm
from oac_blocks.dsp.channel.fading import FADINGS, PROFILES, DelayProfile, impulse_responses
from oac_blocks.dsp.channel.resampling import resample
from oac_blocks.dsp.checks import MAX_PPM, complex_array, generator, integer, real, require
from oac_blocks.dsp.phasor import phasors

_WALK_STEP = 1024  # samples over which a walking clock keeps its rate
_PIECE = 4096
_TAIL = 16  # samples after the latest burst, for the ringing of a fractional delay


@dataclass(frozen=True)
class Link:
    """One client's link to the server. Fading is drawn again for each burst; the other settings stay as given."""

    gain_db: float = 0.0
    fading: str = "none"
    rician_k_db: float = 10.0
    profile: str | DelayProfile = "flat"
    cfo_hz: float = 0.0
    clock_ppm: float = 0.0
    clock_walk_ppm: float = 0.0  # standard deviation of the rate's random walk after one second, in ppm
    delay_samples: float = 0.0
    stream_offset_samples: int = 0

    def __post_init__(self) -> None:
        for name in ("gain_db", "rician_k_db", "cfo_hz", "delay_samples"):
            real(name, getattr(self, name))
        real("clock_ppm", self.clock_ppm, -MAX_PPM, MAX_PPM)
        real("clock_walk_ppm", self.clock_walk_ppm, 0.0, MAX_PPM)
        integer("stream_offset_samples", self.stream_offset_samples, -(1 << 40))
        require(self.fading in FADINGS, "fading", repr(self.fading), f"one of {', '.join(FADINGS)}")
        known = isinstance(self.profile, DelayProfile) or (isinstance(self.profile, str) and self.profile in PROFILES)
        require(known, "profile", repr(self.profile), f"a DelayProfile or one of {', '.join(PROFILES)}")

    def delay_profile(self) -> DelayProfile:
        """Return the link's ``DelayProfile``, also if it is given by name."""
        return self.profile if isinstance(self.profile, DelayProfile) else PROFILES[self.profile]

    def arrival_samples(self) -> float:
        """Return stream offset and delay together, in server samples."""
        return self.stream_offset_samples + self.delay_samples


@dataclass(frozen=True)
class Receiver:
    """The server's front end. ``snr_db`` is the energy of a unit subcarrier over the noise variance of a subcarrier."""

    snr_db: float | None = None
    noise_alpha: float = 2.0  # 2 is Gaussian noise; smaller values are alpha-stable noise with heavy tails
    adc_bits: int | None = None
    adc_full_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.snr_db is not None:
            real("snr_db", self.snr_db, -200.0, 200.0)
        real("noise_alpha", self.noise_alpha, 0.0, 2.0, open_low=True)
        if self.adc_bits is not None:
            integer("adc_bits", self.adc_bits, 1, 24)
        real("adc_full_scale", self.adc_full_scale, 0.0, open_low=True)

    def noise_power(self) -> float:
        """Return the noise variance per complex sample."""
        return 0.0 if self.snr_db is None else float(10 ** (-self.snr_db / 10))

    def receive(self, x: npt.NDArray[np.complex64], rng: np.random.Generator) -> npt.NDArray[np.complex64]:
        """Return the received samples: x with noise, clipped and quantised."""
        if self.snr_db is not None:
            x = x + noise.complex_alpha_stable(x.shape, self.noise_alpha, self.noise_power(), rng)
        if self.adc_bits is not None:
            x = noise.quantise(x, self.adc_bits, self.adc_full_scale)
        return x


@dataclass(frozen=True)
class Reception:
    """The samples that the server received, and the channel state behind them."""

    samples: npt.NDArray[np.complex64]
    impulse_responses: npt.NDArray[np.complex64]  # (N, taps), gain included
    # Links at the end of the burst, with the clock rates that the walks have reached.
    links: tuple[Link, ...] = field(default=())


def transmit(
    bursts: npt.ArrayLike,
    links: Sequence[Link],
    receiver: Receiver,
    sample_rate_hz: float,
    rng: np.random.Generator,
    samples: int | None = None,
) -> Reception:
    """Return the samples that the server receives from its time 0 on, for bursts (N, n), one for each link.

    ``samples`` is their number. By default it covers all bursts and their multipath.
    """
    bursts, rng = complex_array("bursts", bursts, min_ndim=2), generator("rng", rng)
    fits = bursts.ndim == 2 and len(bursts) == len(links)
    require(fits, "bursts", f"shape {bursts.shape}", f"of shape ({len(links)} links, n)")
    length = bursts.shape[1]
    sample_rate_hz = real("sample_rate_hz", sample_rate_hz, 0.0, open_low=True)

    taps = draw_impulse_responses(links, sample_rate_hz, rng)
    if samples is None:
        samples = _reach(links, length) + taps.shape[-1] - 1 + _TAIL
    samples = integer("samples", samples, 1)

    arrived, walked = shift(bursts, links, sample_rate_hz, samples, rng)
    arrived = taps * arrived if taps.shape[-1] == 1 else _convolve(arrived, taps)
    cfo = np.array([link.cfo_hz for link in links])
    if np.any(cfo):
        arrived *= phasors(2 * np.pi * cfo / sample_rate_hz, samples)
    return Reception(receiver.receive(arrived.sum(axis=0), rng), taps, walked)


def draw_impulse_responses(
    links: Sequence[Link], sample_rate_hz: float, rng: np.random.Generator
) -> npt.NDArray[np.complex64]:
    """Draw each link's multipath and gain: (N, taps), shorter responses padded with zeros."""
    drawn = [
        impulse_responses(1, link.delay_profile(), link.fading, sample_rate_hz, rng, link.rician_k_db)[0]
        * np.float32(10 ** (link.gain_db / 20))
        for link in links
    ]
    taps = np.zeros((len(links), max(map(len, drawn))), np.complex64)
    for row, response in zip(taps, drawn, strict=True):
        row[: len(response)] = response
    return taps


def shift(
    bursts: npt.NDArray[np.complex64],
    links: Sequence[Link],
    sample_rate_hz: float,
    samples: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.complex64], tuple[Link, ...]]:
    """Return each burst as sampled by the server's clock, (N, samples), and the links with their new clock rates."""
    arrival = np.array([link.arrival_samples() for link in links])
    if not any(map(_moves, links)) and np.all(arrival == np.rint(arrival)):
        return _shift_whole(bursts, arrival.astype(np.int64), samples), tuple(links)
    rates, ends = clock_rates_ppm(links, sample_rate_hz, samples, rng)
    walked = tuple(dataclasses.replace(link, clock_ppm=float(end)) for link, end in zip(links, ends, strict=True))
    return resample(bursts, positions(arrival, rates, samples)), walked


def clock_rates_ppm(
    links: Sequence[Link], sample_rate_hz: float, samples: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return rate errors in ppm (N, steps), one for each 1,024 server samples, and the rates (N,) after the last step.

    The clocks follow the law of ``crystal``. A burst continues from the rate in its link, and no random numbers are
    drawn for clocks that do not walk. Both rules fix the random numbers of a training run.
    """
    steps = -(-samples // _WALK_STEP)
    start = np.array([link.clock_ppm for link in links])
    walk = np.array([link.clock_walk_ppm for link in links])
    if not np.any(walk):
        return np.repeat(start[:, None], steps, axis=1), start
    path = walk_path_ppm(start, walk, _WALK_STEP / sample_rate_hz, rng.standard_normal((len(links), steps)))
    return path[:, :-1], path[:, -1]


def positions(
    arrival_samples: npt.NDArray[np.float64], rates_ppm: npt.NDArray[np.float64], samples: int
) -> npt.NDArray[np.float64]:
    """Return the positions in each client's burst of the server's samples 0 .. samples-1, (N, samples)."""
    rate = 1e-6 * rates_ppm
    lead = _leads(arrival_samples, rate)
    at = np.arange(_WALK_STEP) * rate[..., None] + lead[..., None]
    at = at.reshape(len(at), -1)[:, :samples]
    at += np.arange(samples) - arrival_samples[:, None]
    return at


def positions_at(
    arrival_samples: npt.NDArray[np.float64], rates_ppm: npt.NDArray[np.float64], at_samples: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return :func:`positions` at these samples of the server only, (N, len(at_samples))."""
    rate = 1e-6 * rates_ppm
    step, since = np.divmod(at_samples, _WALK_STEP)
    return _leads(arrival_samples, rate)[:, step] + since * rate[:, step] + (at_samples - arrival_samples[:, None])


def _leads(arrival_samples: npt.NDArray[np.float64], rate: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the clock's lead at the beginning of each step, relative to the burst's arrival, where the lead is 0."""
    lead = np.cumsum(rate * _WALK_STEP, axis=1) - rate * _WALK_STEP
    step = np.clip(arrival_samples // _WALK_STEP, 0, rate.shape[1] - 1).astype(np.int64)[:, None]
    since = arrival_samples[:, None] - _WALK_STEP * step
    lead -= np.take_along_axis(lead, step, axis=1) + np.take_along_axis(rate, step, axis=1) * since
    return lead


def _reach(links: Sequence[Link], length: int) -> int:
    """Return the number of server samples until the end of the last burst of ``length`` samples, for any clock rate."""
    stretch = [1e-6 * length * (abs(link.clock_ppm) + 10 * link.clock_walk_ppm) for link in links]
    return length + max(
        0, max(int(np.ceil(link.arrival_samples() + s)) for link, s in zip(links, stretch, strict=True))
    )


def _moves(link: Link) -> bool:
    return link.clock_ppm != 0 or link.clock_walk_ppm != 0


def _shift_whole(
    bursts: npt.NDArray[np.complex64], arrival: npt.NDArray[np.int64], samples: int
) -> npt.NDArray[np.complex64]:
    """Delay by whole samples; this only copies and is exact to the bit."""
    shifted = np.zeros((len(bursts), samples), np.complex64)
    for row, burst, first in zip(shifted, bursts, arrival, strict=True):
        piece = burst[max(0, -first) : max(0, samples - first)]
        row[max(0, first) : max(0, first) + len(piece)] = piece
    return shifted


def _convolve(x: npt.NDArray[np.complex64], taps: npt.NDArray[np.complex64]) -> npt.NDArray[np.complex64]:
    """Convolve tap by tap, in pieces that stay in the cache; most taps of a channel are zero."""
    delays = np.flatnonzero(np.any(taps, axis=0))
    y = np.zeros_like(x)
    for start in range(0, x.shape[-1], _PIECE):
        piece = y[:, start : start + _PIECE]
        for delay in delays[delays < start + piece.shape[-1]]:
            skip = max(0, delay - start)
            first = start + skip - delay
            piece[:, skip:] += taps[:, delay, None] * x[:, first : first + piece.shape[-1] - skip]
    return y
