# SPDX-License-Identifier: GPL-3.0-or-later
"""The echoes between two radios, which pass smoothly from one draw to the next.

At whole multiples of the coherence time the taps are drawn, each time anew. In between they are cos and sin of a
quarter turn of the two draws around: a tap is then a complex Gaussian of its mean power at every moment, so votes see
Rayleigh fading whenever they are sent, and no symbol is torn by a jump. A line of sight does not fade. The air takes
the taps at the borders of its blocks of ``HOP`` samples: a coherence time should be a few of these, or more.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.fading import PROFILES, impulse_responses
from oac_blocks.radio.virtual.air_settings import AirSettings

Samples = npt.NDArray[np.complex64]
_KEPT_DRAWS = 4096  # all pairs of 64 radios


class Echoes:
    def __init__(self, settings: AirSettings) -> None:
        self._settings = settings
        self._draw = lru_cache(_KEPT_DRAWS)(self._drawn)
        self._sight = lru_cache(_KEPT_DRAWS)(self._line_of_sight)

    def taps(self, one: int, other: int, rate_hz: float, seconds: npt.NDArray[np.float64]) -> Samples:
        """Of the way between two radios, either way, at these times: (times, taps), of mean power 1."""
        pair, coherence = (min(one, other), max(one, other)), self._settings.coherence_seconds
        sight = self._sight(pair, rate_hz)
        if not coherence or self._settings.fading == "none":
            return np.broadcast_to(self._draw(pair, 0, rate_hz) + sight, (len(seconds), len(sight)))
        eras, shares = np.divmod(np.asarray(seconds, np.float64) / coherence, 1.0)
        numbers = eras.astype(np.int64).tolist()
        before = np.stack([self._draw(pair, era, rate_hz) for era in numbers])
        after = np.stack([self._draw(pair, era + 1, rate_hz) for era in numbers])
        weights = np.exp(0.5j * np.pi * shares)[:, None]
        return (weights.real * before + weights.imag * after + sight).astype(np.complex64)

    def _drawn(self, pair: tuple[int, int], era: int, rate_hz: float) -> Samples:
        """What is scattered, of one draw."""
        settings = self._settings
        rng = np.random.default_rng(settings.branch("fading", *pair, max(era, 0)))
        scattered = "rayleigh" if settings.fading == "rician" else settings.fading
        taps = impulse_responses(1, PROFILES[settings.channel], scattered, rate_hz, rng)[0]
        if settings.fading == "rician":
            taps[0] *= np.float32((1 - self._sight_share) ** 0.5)
        return taps

    @property
    def _sight_share(self) -> float:
        k = 10 ** (self._settings.rician_k_db / 10)
        return float(k / (k + 1))

    def _line_of_sight(self, pair: tuple[int, int], rate_hz: float) -> Samples:
        """The line of sight, on the first tap, with a phase of its own for each pair."""
        settings = self._settings
        none = impulse_responses(1, PROFILES[settings.channel], "none", rate_hz, np.random.default_rng(0))[0]
        sight = np.zeros_like(none)
        if settings.fading == "rician":
            turns = np.random.default_rng(settings.branch("sight", *pair)).random()
            sight[0] = abs(none[0]) * self._sight_share**0.5 * np.exp(2j * np.pi * turns)
        return sight
