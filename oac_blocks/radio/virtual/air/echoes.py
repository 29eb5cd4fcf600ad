# SPDX-License-Identifier: GPL-3.0-or-later
"""The echoes between two radios, which pass smoothly from one draw to the next.

At whole multiples of the coherence time the paths' gains are drawn, each time anew. In between they are cos and sin of
a quarter turn of the two draws around: a gain is then a complex Gaussian of its mean power at every moment, so votes
see Rayleigh fading whenever they are sent, and no symbol is torn by a jump. A line of sight does not fade. The air
takes the taps at the borders of its blocks of ``HOP`` samples: a coherence time should be a few of these, or more.

Echoes between two samples are where they belong, by a windowed sinc around each: at a few Msps all echoes of a room are
within a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.fading import PROFILES, gains
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings

Samples = npt.NDArray[np.complex64]
Floats = npt.NDArray[np.float64]
AHEAD = 16  # taps before the one with delay 0, needed if an echo lies between two samples
_KAISER = 7.0
_KEPT_DRAWS = 4096  # draws that are kept: enough for all pairs of 64 radios
_WHOLE = 1e-6  # samples: a delay closer than this to a whole one is taken for it


@dataclass(frozen=True)
class Paths:
    """The propagation paths between two radios at one moment."""

    delays_seconds: Floats
    gains: Samples

    @property
    def strongest_seconds(self) -> float:
        return float(self.delays_seconds[np.argmax(np.abs(self.gains))])

    @property
    def centroid_seconds(self) -> float:
        """Return the mean delay, weighted by energy."""
        return float(np.average(self.delays_seconds, weights=np.abs(self.gains) ** 2))


class Echoes:
    def __init__(self, settings: VirtualAirSettings) -> None:
        self._settings = settings
        profile = PROFILES["flat" if settings.channel == "none" else settings.channel]
        self._delays = np.array(profile.delays_seconds)
        self._amplitudes = np.sqrt(profile.powers())
        self._draw = lru_cache(_KEPT_DRAWS)(self._drawn)
        self._shapes = lru_cache(16)(self._shapes_at)

    def taps(self, one: int, other: int, rate_hz: float, seconds: Floats) -> tuple[Samples, int]:
        """Return the impulse responses between two radios at these times (times, taps), and the tap with delay 0."""
        shapes, ahead = self._shapes(rate_hz)
        return self._gains(one, other, seconds) @ shapes, ahead

    def paths(self, one: int, other: int, seconds: float) -> Paths:
        """Return the paths at this time; their gains are NaN if the time is."""
        if np.isnan(seconds):
            return Paths(self._delays, np.full(len(self._delays), np.nan, np.complex64))
        return Paths(self._delays, self._gains(one, other, np.array([seconds]))[0])

    def _gains(self, one: int, other: int, seconds: Floats) -> Samples:
        """Return the gains of all paths, (times, paths)."""
        pair, coherence = (min(one, other), max(one, other)), self._settings.coherence_seconds
        if not coherence or self._settings.fading == "none":
            return np.broadcast_to(self._draw(pair, 0) + self._sight(pair), (len(seconds), len(self._delays)))
        eras, shares = np.divmod(np.asarray(seconds, np.float64) / coherence, 1.0)
        numbers = eras.astype(np.int64).tolist()
        before = np.stack([self._draw(pair, era) for era in numbers])
        after = np.stack([self._draw(pair, era + 1) for era in numbers])
        weights = np.exp(0.5j * np.pi * shares)[:, None]
        return (weights.real * before + weights.imag * after + self._sight(pair)).astype(np.complex64)

    def _drawn(self, pair: tuple[int, int], era: int) -> Samples:
        """Return the scattered part of the gains, of one draw."""
        settings = self._settings
        rng = np.random.default_rng(settings.branch("fading", *pair, max(era, 0)))
        drawn = gains(self._delays.shape, "none" if settings.fading == "none" else "rayleigh", rng)
        if settings.fading == "rician":
            drawn[0] *= (1 - self._sight_share) ** 0.5
        return (drawn * self._amplitudes).astype(np.complex64)

    @property
    def _sight_share(self) -> float:
        k = 10 ** (self._settings.rician_k_db / 10)
        return float(k / (k + 1))

    def _sight(self, pair: tuple[int, int]) -> Samples:
        """Return the line of sight: the first path, with a phase of its own for each pair of radios."""
        sight = np.zeros(len(self._delays), np.complex64)
        if self._settings.fading == "rician":
            turns = np.random.default_rng(self._settings.branch("sight", *pair)).random()
            sight[0] = self._amplitudes[0] * self._sight_share**0.5 * np.exp(2j * np.pi * turns)
        return sight

    def _shapes_at(self, rate_hz: float) -> tuple[npt.NDArray[np.float32], int]:
        """Return the response of each path with gain 1 to an impulse, (paths, taps)."""
        delays = self._delays * rate_hz
        whole = np.rint(delays)
        last = int(whole.max())
        if np.all(np.abs(delays - whole) < _WHOLE):
            return np.eye(last + 1, dtype=np.float32)[whole.astype(np.int64)], 0
        away = np.arange(-AHEAD, last + AHEAD + 1) - delays[:, None]
        window = np.i0(_KAISER * np.sqrt(np.clip(1 - (away / AHEAD) ** 2, 0, None))) / np.i0(_KAISER)
        window[np.abs(away) > AHEAD] = 0
        return (np.sinc(away) * window).astype(np.float32), AHEAD
