# SPDX-License-Identifier: GPL-3.0-or-later
"""One client's link as a stream, up or down: clock, echoes and oscillator go on from block to block.

Blocks have ``HOP`` samples and lie at multiples of it in the receiver's time. Whatever changes (a rate that walks, a
setting, a slip) changes at their borders, so that nothing depends on how many blocks are asked for at a time.
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
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.sample_history import SampleHistory, Samples

Direction = Literal["up", "down"]
MAX_ECHO_SAMPLES = HOP  # an echo reaches back into the block before, no further
_BLOCKS_AT_ONCE = 37  # a chunk of 65,536 samples: with fewer, calls take longer than what the cache saves
_FROM_MIDDLE = np.arange(HOP, dtype=np.float32) - HOP // 2


class LinkStream:
    """A link with its state. ``link`` describes the client's radio: down, its clock and oscillator work the other way
    round."""

    def __init__(
        self,
        link: Link,
        direction: Direction,
        sample_rate_hz: float,
        max_drift_samples: int,
        clock_seed: np.random.SeedSequence,
        fading_seed: np.random.SeedSequence,
    ) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._link = link
        clock = RadioClock(link.clock_ppm, link.clock_walk_ppm, sample_rate_hz, max_drift_samples, clock_seed)
        self._clock = clock
        self._path = UpPath(clock, link.arrival_samples()) if direction == "up" else DownPath(clock)
        self._fading_rng = np.random.default_rng(fading_seed)
        self._cfo_sign = 1 if direction == "up" else -1
        self._turns = 0.0  # of the oscillator, when its frequency was last set
        self._turned_blocks = 0  # since then
        self._turn = self._turn_of(link)
        self._past = np.zeros(MAX_ECHO_SAMPLES, np.complex64)
        self._past_loud = False
        self.redraw()

    @property
    def clock_ppm(self) -> float:
        """Where the walk has brought the clock."""
        return self._clock.ppm

    @property
    def drift_samples(self) -> float:
        """By how much the client's clock has run ahead since the start or its last slip."""
        return self._path.drift_samples

    @property
    def slips(self) -> int:
        return self._clock.slips

    @property
    def impulse_response(self) -> Samples:
        """The echoes as they are now, gain included."""
        return self._fading * np.float32(10 ** (self._link.gain_db / 20))

    def apply(self, link: Link) -> None:
        """Go on with these settings; what they leave alone keeps its state."""
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
        link = self._link
        self._fading = impulse_responses(
            1, link.delay_profile(), link.fading, self._sample_rate_hz, self._fading_rng, link.rician_k_db
        )[0]

    def add_to(self, out: Samples, history: SampleHistory, time: int, coherence_samples: int) -> None:
        """Add what arrives from the receiver's ``time`` on to ``out``, whole blocks."""
        blocks = len(out) // HOP
        steps = np.array([self._path.step() for _ in range(blocks)])
        starts, rates = steps[:, 0] - self._link.arrival_samples(), steps[:, 1]
        middles = starts + rates * (HOP // 2)
        whole = np.rint(middles)
        places = time + HOP * np.arange(blocks) + whole.astype(np.int64) - GUARD
        # Triggers are short and far apart, and clients wait for their turn: silence costs nothing.
        loud = history.any_loud(places, BLOCK)
        for first, last, audible in _runs(loud, self._past_loud):
            begin, part = time + first * HOP, slice(first, last)
            cuts = _redraws(begin, (last - first) * HOP, coherence_samples)
            if audible:
                heard = np.zeros((1 + last - first, HOP), np.complex64)  # a block of the past in front
                if self._past_loud:
                    heard[0] = self._past
                self._resample(heard[1:], history, places[part], starts[part], rates[part], loud[part])
                self._past[:], self._past_loud = heard[-1], bool(loud[last - 1])
                faded = self._fade(heard.reshape(-1), cuts)
                self._rotate(faded.reshape(-1, HOP), self._turned_blocks + first)
                out[first * HOP : last * HOP] += faded
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
        """Loud blocks into the rows of ``out``; places are those of the samples that they need."""
        # Blocks that happen to be asked for together are alike only if each of them would be treated so alone.
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

    def _fade(self, with_past: Samples, cuts: list[int]) -> Samples:
        """The echoes of all but the first MAX_ECHO_SAMPLES, which are the past; fading is drawn anew at the cuts."""
        samples = len(with_past) - MAX_ECHO_SAMPLES
        faded = np.empty(samples, np.complex64)
        term = np.empty(samples, np.complex64)
        for i, (cut, end) in enumerate(zip([0, *cuts], [*cuts, samples], strict=True)):
            if i:
                self.redraw()
            taps = self.impulse_response
            first = MAX_ECHO_SAMPLES + cut
            np.multiply(with_past[first : first + end - cut], taps[0], out=faded[cut:end])
            for delay in np.flatnonzero(taps[1:]) + 1:
                earlier = with_past[first - delay : first - delay + end - cut]
                faded[cut:end] += np.multiply(earlier, taps[delay], out=term[cut:end])
        return faded

    def _rotate(self, rows: Samples, first_block: int) -> None:
        if not self._link.cfo_hz and not self._turns:
            return
        turns = self._turns_after(self._link, first_block + np.arange(len(rows)))
        rows *= self._turn
        rows *= np.exp(2j * np.pi * turns).astype(np.complex64)[:, None]

    def _turns_after(self, link: Link, blocks: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The oscillator's phase, in turns, this many blocks after its frequency was set."""
        return (self._turns + np.asarray(blocks) * (self._cfo_sign * link.cfo_hz / self._sample_rate_hz * HOP)) % 1.0

    def _turn_of(self, link: Link) -> Samples:
        return phasors(self._cfo_sign * 2 * np.pi * link.cfo_hz / self._sample_rate_hz, HOP)


def _runs(loud: npt.NDArray[np.bool_], past_loud: bool) -> list[tuple[int, int, bool]]:
    """Blocks in a row that all have something to hear, echoes of the block before included, or all have nothing."""
    audible = loud | np.concatenate(([past_loud], loud[:-1]))
    borders = [0, *(np.flatnonzero(audible[1:] != audible[:-1]) + 1).tolist(), len(loud)]
    runs: list[tuple[int, int, bool]] = []
    for first, last in pairwise(borders):
        step = _BLOCKS_AT_ONCE if audible[first] else last - first
        runs.extend((i, min(i + step, last), bool(audible[first])) for i in range(first, last, step))
    return runs


def _redraws(time: int, samples: int, coherence_samples: int) -> list[int]:
    """Where in these samples the fading is due to be drawn anew."""
    if not coherence_samples:
        return []
    first = -(-max(time, 1) // coherence_samples) * coherence_samples - time
    return list(range(first, samples, coherence_samples))


def _series_terms(start: float, rate: float) -> int:
    """How many terms the resampler needs for a block; 0 where the sender's samples fall on the receiver's."""
    return series_length(abs(rate) * HOP / 2) if rate or not start.is_integer() else 0
