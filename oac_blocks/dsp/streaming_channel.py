# SPDX-License-Identifier: GPL-3.0-or-later
"""The multiple-access channel for streams without an end: what ``channel.transmit`` does to bursts, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel import Link, Receiver
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.resampling import BLOCK, HOP
from oac_blocks.dsp.streaming_link import MAX_ECHO_SAMPLES, LinkStream, Samples

MIN_COHERENCE_SAMPLES = 64
_LARGEST_AMPLITUDE = 1e12  # energies of spectra must still be float32; full scale is 1


class StreamingChannel:
    """N client streams to the server's, sample for sample.

    ``push`` takes n samples of each client and returns n of the server: those that arrived ``latency_samples`` ago. The
    latency is constant, and how the streams are cut changes nothing. Settings apply from the next block of 1,792
    samples on; the rest goes on: phases stay continuous, and a clock keeps the drift that it has gathered.

    Time. At the server's sample t the client's sample ``t - arrival + drift`` arrives, and the drift grows by
    ``clock_ppm`` 1e-6 a sample. All streams of a flowgraph advance one to one, so a fast client's samples run out in
    the end, and a slow one's pile up. The channel holds ``max_drift_samples`` of them either way: at the default and
    20 ppm that lasts 800 million samples. Then the client slips, as a real radio's buffers do: its drift is taken back
    to within half a sample of zero, the stream jumps by that many samples, and ``slips`` counts it. A client that
    hears the server through a second channel with the opposite rate stays in step until then.

    ``stream_offset_samples + delay_samples`` of a link is at most ``max_delay_samples`` either way; early is possible
    because of the latency. Echoes reach back 1,792 samples at most.

    Fading is drawn at the start, when its kind changes, every ``coherence_samples`` (0: never), and by ``redraw``.
    Samples that are NaN, infinite or absurdly large are taken as silence and counted in ``bad_samples``. The same seed
    gives the same run.
    """

    def __init__(
        self,
        links: Sequence[Link],
        receiver: Receiver,
        sample_rate_hz: float,
        seed: int,
        *,
        coherence_samples: int = 0,
        max_delay_samples: int = 4096,
        max_drift_samples: int = 16_384,
    ) -> None:
        require(len(links) > 0, "links", "none", "at least one link")
        self._sample_rate_hz = real("sample_rate_hz", sample_rate_hz, 0.0, open_low=True)
        self._seed = integer("seed", seed, 0)
        self._max_delay_samples = integer("max_delay_samples", max_delay_samples, 0, 1 << 24)
        self._max_drift_samples = integer("max_drift_samples", max_drift_samples, 16, 1 << 24)
        self._links = tuple(links)
        self.set_links(links)
        self.set_receiver(receiver)
        self.set_coherence_samples(coherence_samples)
        self.reset()

    def reset(self) -> None:
        """Begin anew at time 0, with the present settings and the seed's own noise and fading."""
        noise, *seeds = np.random.SeedSequence(self._seed).spawn(1 + len(self._links))
        self._noise_rng = np.random.default_rng(noise)
        self._streams = [
            LinkStream(link, self._sample_rate_hz, self._max_drift_samples, seed)
            for link, seed in zip(self._links, seeds, strict=True)
        ]
        self._redraw = False
        self.bad_samples = 0
        self._time = 0  # what the server has received so far
        self._origin = self._reach  # of the clients' sample 0 in the buffer
        self._held = np.zeros((len(self._links), self._origin), np.complex64)
        self._ready = np.zeros(self.latency_samples, np.complex64)

    @property
    def _reach(self) -> int:
        """How far from its undelayed place a block may have to look, either way."""
        return self._max_delay_samples + self._max_drift_samples + BLOCK - HOP

    @property
    def latency_samples(self) -> int:
        return self._reach + HOP

    @property
    def links(self) -> tuple[Link, ...]:
        return self._links

    @property
    def receiver(self) -> Receiver:
        return self._receiver

    @property
    def coherence_samples(self) -> int:
        return self._coherence_samples

    @property
    def impulse_responses(self) -> list[Samples]:
        """Of each client, as they are now, gain included."""
        return [stream.impulse_response for stream in self._streams]

    @property
    def clock_ppm(self) -> tuple[float, ...]:
        """Where the clocks have walked to."""
        return tuple(stream.clock_ppm for stream in self._streams)

    @property
    def drift_samples(self) -> tuple[float, ...]:
        """By how much each client's clock has run ahead since the start or its last slip."""
        return tuple(stream.drift_samples for stream in self._streams)

    @property
    def slips(self) -> tuple[int, ...]:
        """How often each client's drift outgrew the buffer."""
        return tuple(stream.slips for stream in self._streams)

    def set_links(self, links: Sequence[Link]) -> None:
        clients = len(self._links)
        require(len(links) == clients, "links", f"{len(links)} links", f"one for each of {clients} clients")
        limit = self._max_delay_samples
        for link in links:
            real("stream_offset_samples + delay_samples", link.arrival_samples(), -limit, limit)
            span = max(link.delay_profile().delays_seconds) * self._sample_rate_hz
            allowed = f"a profile of at most {MAX_ECHO_SAMPLES} samples"
            require(span < MAX_ECHO_SAMPLES, "profile", f"one of {span:.0f} samples", allowed)
        self._links = tuple(links)

    def set_receiver(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def set_coherence_samples(self, coherence_samples: int) -> None:
        samples = integer("coherence_samples", coherence_samples, 0)
        allowed = f"0 or at least {MIN_COHERENCE_SAMPLES}"
        require(samples == 0 or samples >= MIN_COHERENCE_SAMPLES, "coherence_samples", samples, allowed)
        self._coherence_samples = samples

    def redraw(self) -> None:
        """Draw the fading of all clients anew, from the next block on."""
        self._redraw = True

    def push(self, chunk: npt.ArrayLike | Sequence[npt.NDArray[np.complex64]]) -> Samples:
        """The next samples of each client (N, n), complex64, to the server's next n."""
        samples = np.array(chunk, np.complex64)
        fits = samples.ndim == 2 and len(samples) == len(self._links)
        require(fits, "chunk", f"shape {samples.shape}", f"of shape ({len(self._links)} clients, n)")
        self._silence_bad(samples)
        self._held = np.concatenate((self._held, samples), axis=1)
        wanted = samples.shape[1] - len(self._ready)
        if wanted > 0:
            self._ready = np.concatenate((self._ready, self._receive(-(-wanted // HOP))))
            self._forget()
        out, self._ready = np.split(self._ready, [samples.shape[1]])
        return out

    def _silence_bad(self, samples: Samples) -> None:
        parts = samples.view(np.float32)
        # NaN is neither above nor below, hence "not within".
        if not (parts.max(initial=0) < _LARGEST_AMPLITUDE and parts.min(initial=0) > -_LARGEST_AMPLITUDE):
            bad = ~((np.abs(samples.real) < _LARGEST_AMPLITUDE) & (np.abs(samples.imag) < _LARGEST_AMPLITUDE))
            self.bad_samples += int(np.count_nonzero(bad))
            samples[bad] = 0

    def _receive(self, blocks: int) -> Samples:
        redraw, self._redraw = self._redraw, False
        links, receiver, coherence = self._links, self._receiver, self._coherence_samples
        total = np.zeros(blocks * HOP, np.complex64)
        for row, stream, link in zip(self._held, self._streams, links, strict=True):
            stream.apply(link)
            if redraw:
                stream.redraw()
            total += stream.take(row, self._origin, self._time, blocks, coherence)
        self._time += blocks * HOP
        # Block by block: the order in which noise is drawn must not depend on how the stream is cut.
        return np.concatenate([receiver.receive(block, self._noise_rng) for block in total.reshape(blocks, HOP)])

    def _forget(self) -> None:
        """Drop the samples that no later block can ask for."""
        old = self._origin + self._time - self._reach
        self._held = self._held[:, old:].copy()
        self._origin -= old
