# SPDX-License-Identifier: GPL-3.0-or-later
"""One client's way to the server as a stream: clock, echoes and oscillator go on from block to block.

Blocks have ``HOP`` samples and lie at multiples of it in the server's time. Whatever changes (a rate that walks, a
setting, a slip) changes at their borders, so that nothing depends on how many blocks are asked for at a time.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel import MAX_PPM, Link
from oac_blocks.dsp.fading import impulse_responses
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.resampling import BLOCK, GUARD, HOP, delay_blocks, series_length

Samples = npt.NDArray[np.complex64]
MAX_ECHO_SAMPLES = HOP  # an echo reaches back into the block before, no further
_BLOCKS_AT_ONCE = 19  # half a chunk of 65,536 samples: larger arrays leave the cache, and are new memory each time
_FROM_MIDDLE = np.arange(HOP, dtype=np.float32) - HOP // 2


class LinkStream:
    """A link with its state. ``held[origin + m]`` is the client's sample m, as far as the buffer reaches."""

    def __init__(self, link: Link, sample_rate_hz: float, max_drift_samples: int, seed: np.random.SeedSequence) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._max_drift_samples = max_drift_samples
        self._clock_rng, self._fading_rng = map(np.random.default_rng, seed.spawn(2))
        self._link = link
        self._ppm = link.clock_ppm
        # The client's sample 0 arrives exactly after the delay: until then its clock has run off by this.
        self.drift_samples = -1e-6 * link.clock_ppm * link.arrival_samples()
        self.slips = 0
        self._phase_rad = 0.0
        self._turn = self._turn_of(link)
        self._past = np.zeros(MAX_ECHO_SAMPLES, np.complex64)
        self.redraw()

    @property
    def clock_ppm(self) -> float:
        """Where the walk has brought the clock."""
        return self._ppm

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
            self._ppm = link.clock_ppm
        if link.cfo_hz != old.cfo_hz:
            self._turn = self._turn_of(link)
        if (link.fading, link.profile, link.rician_k_db) != (old.fading, old.profile, old.rician_k_db):
            self.redraw()

    def redraw(self) -> None:
        link = self._link
        self._fading = impulse_responses(
            1, link.delay_profile(), link.fading, self._sample_rate_hz, self._fading_rng, link.rician_k_db
        )[0]

    def take(self, held: Samples, origin: int, time: int, blocks: int, coherence_samples: int) -> Samples:
        """What arrives from the server's ``time`` on, (blocks * HOP,)."""
        arrived = np.empty(blocks * HOP, np.complex64)
        for first in range(0, blocks, _BLOCKS_AT_ONCE):
            part = arrived[first * HOP : (first + _BLOCKS_AT_ONCE) * HOP]
            self._resample(held, origin, time + first * HOP, part)
            self._fade(part, time + first * HOP, coherence_samples)
            self._rotate(part)
        return arrived

    def _resample(self, held: Samples, origin: int, time: int, out: Samples) -> None:
        paths = [self._advance(origin + time + i) for i in range(0, len(out), HOP)]
        done = 0
        # Blocks that happen to be asked for together are alike only if each of them would be treated so alone.
        for terms, alike in groupby(paths, _series_terms):
            starts, rates = np.array(list(alike)).T
            y = _delayed(held, starts, rates) if terms else _copied(held, starts)
            out[done : done + y.size] = y.ravel()
            done += y.size

    def _advance(self, undelayed: int) -> tuple[float, float]:
        """Where in the buffer the next block begins, and by how much its samples are further apart than one."""
        link = self._link
        ppm = min(max(self._ppm, -MAX_PPM), MAX_PPM)
        rate = 1e-6 * ppm
        if abs(self.drift_samples + rate * HOP) > self._max_drift_samples:
            self.drift_samples -= round(self.drift_samples)
            self.slips += 1
        start = undelayed - link.arrival_samples() + self.drift_samples
        self.drift_samples += rate * HOP
        if link.clock_walk_ppm:
            sigma = link.clock_walk_ppm * (HOP / self._sample_rate_hz) ** 0.5
            self._ppm = ppm + sigma * self._clock_rng.standard_normal()
        return start, rate

    def _fade(self, x: Samples, time: int, coherence_samples: int) -> None:
        with_past = np.concatenate((self._past, x))
        self._past = with_past[-MAX_ECHO_SAMPLES:]
        cuts = [0]
        if coherence_samples:
            first = -(-max(time, 1) // coherence_samples) * coherence_samples - time
            cuts.extend(range(first, len(x), coherence_samples))
        for i, cut in enumerate(cuts):
            if i:
                self.redraw()
            end = cuts[i + 1] if i + 1 < len(cuts) else len(x)
            taps = self.impulse_response
            delays = np.flatnonzero(taps)
            x[cut:end] *= taps[0]
            for delay in delays[delays > 0]:
                earlier = MAX_ECHO_SAMPLES - delay
                x[cut:end] += taps[delay] * with_past[earlier + cut : earlier + end]

    def _rotate(self, x: Samples) -> None:
        step = 2 * np.pi * self._link.cfo_hz / self._sample_rate_hz * HOP
        if not step and not self._phase_rad:
            return
        rows = x.reshape(-1, HOP)
        phases = []
        for _ in rows:
            phases.append(self._phase_rad)
            self._phase_rad = (self._phase_rad + step) % (2 * np.pi)
        rows *= self._turn
        rows *= np.exp(1j * np.array(phases)).astype(np.complex64)[:, None]

    def _turn_of(self, link: Link) -> Samples:
        return phasors(2 * np.pi * link.cfo_hz / self._sample_rate_hz, HOP)


def _series_terms(path: tuple[float, float]) -> int:
    """How many terms the resampler needs for a block; 0 where the client's samples fall on the server's."""
    start, rate = path
    return series_length(abs(rate) * HOP / 2) if rate or not start.is_integer() else 0


def _copied(held: Samples, starts: npt.NDArray[np.float64]) -> Samples:
    return np.stack([held[int(start) : int(start) + HOP] for start in starts])


def _delayed(held: Samples, starts: npt.NDArray[np.float64], rates: npt.NDArray[np.float64]) -> Samples:
    """Blocks (b, HOP) that begin at ``starts`` of the buffer and whose samples are 1 + rate apart."""
    middle = starts + rates * (HOP // 2)
    whole = np.rint(middle)
    segments = np.lib.stride_tricks.sliding_window_view(held, BLOCK)[whole.astype(np.int64) - GUARD]
    delayed = np.zeros((len(starts), HOP), np.complex64)
    # Triggers are short and far apart, and clients wait for their turn: silence costs nothing.
    loud = segments.view(np.float32).any(axis=-1)
    if loud.any():
        drift = rates[loud].astype(np.float32)[:, None] * _FROM_MIDDLE
        delayed[loud] = delay_blocks(segments[loud], (middle - whole)[loud], drift)
    return delayed
