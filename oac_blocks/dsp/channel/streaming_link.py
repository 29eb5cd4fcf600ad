# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate one client's link as a stream, up or down; clock, multipath and oscillator continue from block to block.

Blocks have ``HOP`` samples and start at multiples of it in the receiver's time. Every change (a walking rate, a
setting, a slip) takes effect at a block border, so that the result does not depend on how many blocks are processed at
a time.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.fading import impulse_responses
from oac_blocks.dsp.channel.multiple_access import Link
from oac_blocks.dsp.channel.radio_clock import DownPath, RadioClock, UpPath
from oac_blocks.dsp.channel.resampling import BLOCK, GUARD, HOP, delay_blocks, series_length
from oac_blocks.dsp.channel.sample_history import SampleHistory, Samples
from oac_blocks.dsp.phasor import phasors

Direction = Literal["up", "down"]
MAX_ECHO_SAMPLES = HOP  # samples that multipath may reach back: into the previous block, no further
_BLOCKS_AT_ONCE = 12  # blocks whose arrays stay in a cache of a megabyte; with fewer, the calls cost more than it saves
_FROM_MIDDLE = np.arange(HOP, dtype=np.float32) - HOP // 2


class LinkStream:
    """A link with its state.

    ``link`` describes the client's radio. In the downlink its clock and oscillator act in the opposite direction.
    """

    def __init__(
        self,
        link: Link,
        direction: Direction,
        sample_rate_hz: float,
        max_drift_samples: int,
        clock_seed: np.random.SeedSequence,
        fading_seed: np.random.SeedSequence,
    ) -> None:
        from oac_blocks.dsp.channel import stream_kernels  # here, because it loads the compiler

        self._kernels = stream_kernels
        self._sample_rate_hz = sample_rate_hz
        self._link = link
        clock = RadioClock(link.clock_ppm, link.clock_walk_ppm, sample_rate_hz, max_drift_samples, clock_seed)
        self._clock = clock
        self._path = UpPath(clock, link.arrival_samples()) if direction == "up" else DownPath(clock)
        self._fading_rng = np.random.default_rng(fading_seed)
        self._cfo_sign = 1 if direction == "up" else -1
        self._turns = 0.0  # phase of the oscillator, in turns, when its frequency was last set
        self._turned_blocks = 0  # blocks since the frequency was last set
        self._turn = self._turn_of(link)
        self._past = np.zeros(MAX_ECHO_SAMPLES, np.complex64)
        self._past_loud = False
        self.redraw()

    @property
    def clock_ppm(self) -> float:
        """Return the present rate error of the clock in ppm, random walk included."""
        return self._clock.ppm

    @property
    def drift_samples(self) -> float:
        """Return how far the client's clock has run ahead since the start or its last slip, in samples."""
        return self._path.drift_samples

    @property
    def slips(self) -> int:
        """Return how often the drift exceeded the buffer."""
        return self._clock.slips

    @property
    def impulse_response(self) -> Samples:
        """Return the present impulse response, gain included."""
        return self._fading * np.float32(10 ** (self._link.gain_db / 20))

    def apply(self, link: Link) -> None:
        """Apply new settings; everything that they do not change keeps its state."""
        old, self._link = self._link, link
        if link == old:
            return
        if link.clock_ppm != old.clock_ppm:
            self._clock.ppm = link.clock_ppm
        self._clock.walk_ppm = link.clock_walk_ppm
        if link.cfo_hz != old.cfo_hz:
            self._turns, self._turned_blocks = float(self._turns_after(old, self._turned_blocks)), 0
            self._turn = self._turn_of(link)
        if (link.fading, link.profile, link.rician_k_db) != (old.fading, old.profile, old.rician_k_db):
            self.redraw()

    def redraw(self) -> None:
        """Draw new fading."""
        link = self._link
        self._fading = impulse_responses(
            1, link.delay_profile(), link.fading, self._sample_rate_hz, self._fading_rng, link.rician_k_db
        )[0]

    def add_to(self, out: Samples, history: SampleHistory, time: int, coherence_samples: int) -> None:
        """Add the samples that arrive from the receiver's ``time`` on to ``out``, whole blocks."""
        blocks = len(out) // HOP
        steps = np.array([self._path.step() for _ in range(blocks)])
        starts, rates = steps[:, 0] - self._link.arrival_samples(), steps[:, 1]
        middles = starts + rates * (HOP // 2)
        whole = np.rint(middles)
        places = time + HOP * np.arange(blocks) + whole.astype(np.int64) - GUARD
        # Triggers are short and rare, and clients wait for their turn, so silent blocks are skipped.
        loud = history.any_loud(places, BLOCK)
        for first, last, audible in _runs(loud, self._past_loud):
            begin, part = time + first * HOP, slice(first, last)
            cuts = _redraws(begin, (last - first) * HOP, coherence_samples)
            if audible:
                heard = np.zeros((1 + last - first, HOP), np.complex64)  # the first row is the previous block
                if self._past_loud:
                    heard[0] = self._past
                self._resample(heard[1:], history, places[part], starts[part], rates[part], loud[part])
                self._past[:], self._past_loud = heard[-1], bool(loud[last - 1])
                self._fade(out[first * HOP : last * HOP], heard.reshape(-1), cuts, self._turned_blocks + first)
            else:
                self._past_loud = False
                for _ in cuts:
                    self.redraw()
        self._turned_blocks += blocks

    def _resample(
        self,
        out: Samples,
        history: SampleHistory,
        places: npt.NDArray[np.int64],
        starts: npt.NDArray[np.float64],
        rates: npt.NDArray[np.float64],
        loud: npt.NDArray[np.bool_],
    ) -> None:
        """Write the loud blocks into the rows of ``out``; their samples start at the positions ``places``."""
        # Blocks that are processed together must give the same result as each block alone.
        paths = list(zip(starts.tolist(), rates.tolist(), strict=True))
        for terms, alike in groupby(np.flatnonzero(loud).tolist(), lambda i: _series_terms(*paths[i])):
            rows = np.array(list(alike))
            segments = history.windows(places[rows], BLOCK)
            if terms:
                middle = starts[rows] + rates[rows] * (HOP // 2)
                drift = rates[rows].astype(np.float32)[:, None] * _FROM_MIDDLE
                out[rows] = delay_blocks(segments, middle - np.rint(middle), drift)
            else:
                out[rows] = segments[:, GUARD:-GUARD]

    def _fade(self, out: Samples, with_past: Samples, cuts: list[int], first_block: int) -> None:
        """Add multipath and rotation of all but the first MAX_ECHO_SAMPLES, the past; draw new fading at each cut."""
        phases = np.empty(0, np.complex64)
        if self._link.cfo_hz or self._turns:
            turns = self._turns_after(self._link, first_block + np.arange(len(out) // HOP))
            phases = np.exp(2j * np.pi * turns).astype(np.complex64)
        for i, (cut, end) in enumerate(zip([0, *cuts], [*cuts, len(out)], strict=True)):
            if i:
                self.redraw()
            response = self.impulse_response
            delays = np.flatnonzero(response)
            self._kernels.add_echoes(
                out[cut:end].view(np.float32),
                with_past[cut : MAX_ECHO_SAMPLES + end].view(np.float32),
                response[delays],
                delays,
                self._turn.view(np.float32),
                phases[cut // HOP :],
                cut % HOP,
            )

    def _turns_after(self, link: Link, blocks: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the oscillator's phase in turns this many blocks after its frequency was set."""
        return (self._turns + np.asarray(blocks) * (self._cfo_sign * link.cfo_hz / self._sample_rate_hz * HOP)) % 1.0

    def _turn_of(self, link: Link) -> Samples:
        return phasors(self._cfo_sign * 2 * np.pi * link.cfo_hz / self._sample_rate_hz, HOP)


def _runs(loud: npt.NDArray[np.bool_], past_loud: bool) -> list[tuple[int, int, bool]]:
    """Return runs of blocks that all receive something (multipath of the previous block included) or all nothing."""
    audible = loud | np.concatenate(([past_loud], loud[:-1]))
    borders = [0, *(np.flatnonzero(audible[1:] != audible[:-1]) + 1).tolist(), len(loud)]
    runs: list[tuple[int, int, bool]] = []
    for first, last in pairwise(borders):
        step = _BLOCKS_AT_ONCE if audible[first] else last - first
        runs.extend((i, min(i + step, last), bool(audible[first])) for i in range(first, last, step))
    return runs


def _redraws(time: int, samples: int, coherence_samples: int) -> list[int]:
    """Return the positions in these samples at which new fading is due."""
    if not coherence_samples:
        return []
    first = -(-max(time, 1) // coherence_samples) * coherence_samples - time
    return list(range(first, samples, coherence_samples))


def _series_terms(start: float, rate: float) -> int:
    """Return how many series terms the resampler needs for a block; 0 if both clocks sample at the same instants."""
    return series_length(abs(rate) * HOP / 2) if rate or not start.is_integer() else 0
