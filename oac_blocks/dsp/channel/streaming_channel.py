# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the air for endless streams, chunk by chunk, from clients to server (up) and from server to clients (down).

Latency. ``push`` takes n samples of each sender and returns n samples of each receiver, those that arrived
``latency_samples`` ago. The latency is constant, and the result does not depend on how the streams are divided into
chunks. Settings apply from the next block of 1,792 samples on. Everything else continues: phases stay continuous, and a
clock keeps its accumulated drift.

Radios. A ``Link`` describes a client's radio. In both directions a positive ``clock_ppm`` is a fast clock of the
client, and a positive ``cfo_hz`` is a client oscillator that is too high. If the uplink runs at rate error p and
rotates by +f, the downlink runs at 1 / (1 + p) - 1 and rotates by -f. Channels with the same ``clock_seed`` have the
same clocks: client i walks alike in both, independent of the number of other clients. If a client receives something
and sends n of its own samples later, its burst reaches the server after a constant time, except for n times the change
of its rate. Channels with the same ``seed`` draw the same fading for client i, so that uplink and downlink are
reciprocal; give them different seeds for independent fading. Each receiver always has its own noise.

Slips. All streams of a flowgraph advance one to one, so the samples of a fast client run out in the end, and those of a
slow client pile up. The channel holds ``max_drift_samples`` of them in each direction; at the default and 20 ppm that
lasts 800 million samples. Then the client slips, like the buffers of a real radio: its sample count is set back by that
many samples, and ``slips`` counts the event. In the uplink the server receives that many samples of a fast client
again, or misses that many samples of a slow one. In the downlink that many of the client's own sample times are missing
or come again. Each stream jumps once, at the same count of the client. A burst in transit at the jump is lost. A client
that receives before one jump and answers after the other is off by the jump. After both jumps the round trip is the
same as before.

Delay. ``stream_offset_samples + delay_samples`` of a link, in server samples, lies within +-``max_delay_samples``. A
negative delay is possible because of the latency. Multipath reaches back 1,792 samples at most.

Fading is drawn at the start, when its kind changes, every ``coherence_samples`` of the receiver (0: never), and by
``redraw``. NaN, infinite and very large samples become zeros and are counted in ``bad_samples``. The same seeds give
the same run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.front_end import FrontEnd
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.resampling import BLOCK, HOP
from oac_blocks.dsp.channel.sample_history import SampleHistory, Samples
from oac_blocks.dsp.channel.streaming_link import MAX_ECHO_SAMPLES, Direction, LinkStream
from oac_blocks.dsp.checks import MAX_PPM, integer, real, require

MIN_COHERENCE_SAMPLES = 64
_UP, _DOWN, _FADING, _CLOCK = range(4)  # branches of a seed: uplink noise, downlink noise, fading and clocks
Chunk = npt.ArrayLike | Sequence[npt.NDArray[np.complex64]]


class StreamingAir:
    """The part that both directions share: link i takes one sender's samples and adds to one receiver's samples."""

    def __init__(
        self,
        direction: Direction,
        links: Sequence[Link],
        receivers: Sequence[Receiver],
        sample_rate_hz: float,
        seed: int,
        clock_seed: int,
        coherence_samples: int,
        max_delay_samples: int,
        max_drift_samples: int,
    ) -> None:
        require(len(links) > 0, "links", "none", "at least one link")
        self._direction = direction
        self._sample_rate_hz = real("sample_rate_hz", sample_rate_hz, 0.0, open_low=True)
        self._seed = integer("seed", seed, 0)
        self._clock_seed = integer("clock_seed", clock_seed, 0)
        self._max_delay_samples = integer("max_delay_samples", max_delay_samples, 0, 1 << 24)
        self._max_drift_samples = integer("max_drift_samples", max_drift_samples, 16, 1 << 24)
        self._links, self._receivers = tuple(links), tuple(receivers)
        self.set_links(links)
        self.set_coherence_samples(coherence_samples)
        self.reset()

    def reset(self) -> None:
        """Begin again at time 0 with the present settings and with the noise, fading and clocks of the seeds."""
        clients, up = range(len(self._links)), self._direction == "up"
        self._streams = [
            LinkStream(
                link,
                self._direction,
                self._sample_rate_hz,
                self._max_drift_samples,
                np.random.SeedSequence(self._clock_seed, spawn_key=(_CLOCK, i)),
                np.random.SeedSequence(self._seed, spawn_key=(_FADING, i)),
            )
            for i, link in enumerate(self._links)
        ]
        self._histories = [SampleHistory(self._reach) for _ in (clients if up else range(1))]
        self._front_ends = [
            FrontEnd(np.random.SeedSequence(self._seed, spawn_key=(_UP if up else _DOWN, i)))
            for i in range(len(self._receivers))
        ]
        self._redraw = False
        self.bad_samples = 0
        self._time = 0  # number of samples that the receivers have received so far
        self._ready = np.zeros((len(self._receivers), self.latency_samples), np.complex64)

    @property
    def _reach(self) -> int:
        """Return how many samples a block may need before or after its undelayed position."""
        furthest = self._max_delay_samples + self._max_drift_samples
        guards = BLOCK - HOP  # half of the guards is free, more than a clock gains or loses over a usual reach
        return furthest + guards + max(0, int(1e-6 * MAX_PPM * furthest) - guards // 4)

    @property
    def latency_samples(self) -> int:
        """Return the constant latency from input to output in samples."""
        return self._reach + HOP

    @property
    def links(self) -> tuple[Link, ...]:
        """Return the present settings of each client's link."""
        return self._links

    @property
    def receivers(self) -> tuple[Receiver, ...]:
        """Return the present settings of each receiver."""
        return self._receivers

    @property
    def coherence_samples(self) -> int:
        """Return after how many samples new fading is drawn; 0 for never."""
        return self._coherence_samples

    @property
    def impulse_responses(self) -> list[Samples]:
        """Return the present impulse response of each client's link, gain included."""
        return [stream.impulse_response for stream in self._streams]

    @property
    def clock_ppm(self) -> tuple[float, ...]:
        """Return the present rate error of each client's clock in ppm."""
        return tuple(stream.clock_ppm for stream in self._streams)

    @property
    def drift_samples(self) -> tuple[float, ...]:
        """Return how far each client's clock has run ahead since the start or its last slip, in samples."""
        return tuple(stream.drift_samples for stream in self._streams)

    @property
    def slips(self) -> tuple[int, ...]:
        """Return how often each client's drift exceeded the buffer."""
        return tuple(stream.slips for stream in self._streams)

    def set_links(self, links: Sequence[Link]) -> None:
        """Apply new links from the next block on, one for each client."""
        clients = len(self._links)
        require(len(links) == clients, "links", f"{len(links)} links", f"one for each of {clients} clients")
        limit = self._max_delay_samples
        for link in links:
            real("stream_offset_samples + delay_samples", link.arrival_samples(), -limit, limit)
            span = max(link.delay_profile().delays_seconds) * self._sample_rate_hz
            allowed = f"a profile of at most {MAX_ECHO_SAMPLES} samples"
            require(span < MAX_ECHO_SAMPLES, "profile", f"one of {span:.0f} samples", allowed)
        self._links = tuple(links)

    def set_receivers(self, receivers: Sequence[Receiver]) -> None:
        """Apply new receivers from the next block on."""
        there = len(self._receivers)
        require(len(receivers) == there, "receivers", f"{len(receivers)} receivers", f"one for each of {there}")
        self._receivers = tuple(receivers)

    def set_coherence_samples(self, coherence_samples: int) -> None:
        """Set after how many samples new fading is drawn; 0 for never."""
        samples = integer("coherence_samples", coherence_samples, 0)
        allowed = f"0 or at least {MIN_COHERENCE_SAMPLES}"
        require(samples == 0 or samples >= MIN_COHERENCE_SAMPLES, "coherence_samples", samples, allowed)
        self._coherence_samples = samples

    def redraw(self) -> None:
        """Draw the fading of all clients again, from the next block on."""
        self._redraw = True

    def _push(self, chunk: Sequence[npt.ArrayLike]) -> Samples:
        """Take the senders' next n samples and return the receivers' samples, (receivers, n)."""
        rows = [np.asarray(row, np.complex64) for row in chunk]
        shapes = {row.shape for row in rows}
        fits = len(rows) == len(self._histories) and len(shapes) == 1 and rows[0].ndim == 1
        wanted = f"of shape ({len(self._histories)} {'clients' if self._direction == 'up' else 'server'}, n)"
        require(fits, "chunk", f"{len(rows)} rows of shapes {sorted(shapes)}", wanted)
        samples = len(rows[0])
        for history, row in zip(self._histories, rows, strict=True):
            self.bad_samples += history.push(row)
        ready = self._ready.shape[1]
        blocks = -(-(samples - ready) // HOP)
        if blocks > 0:
            received = np.zeros((len(self._receivers), ready + blocks * HOP), np.complex64)
            received[:, :ready] = self._ready
            self._receive(received[:, ready:])
            self._ready = received
        out, self._ready = self._ready[:, :samples], self._ready[:, samples:].copy()
        return out

    def _receive(self, out: Samples) -> None:
        """Add the next arriving samples to zeros of shape (receivers, whole blocks)."""
        redraw, self._redraw = self._redraw, False
        links, receivers, coherence = self._links, self._receivers, self._coherence_samples
        for i, (stream, link) in enumerate(zip(self._streams, links, strict=True)):
            stream.apply(link)
            if redraw:
                stream.redraw()
            sender, receiver = (i, 0) if self._direction == "up" else (0, i)
            stream.add_to(out[receiver], self._histories[sender], self._time, coherence)
        self._time += out.shape[1]
        for front_end, row, its in zip(self._front_ends, out, receivers, strict=True):
            front_end.receive(row, its)
        for history in self._histories:
            history.forget(self._time - self._reach)


class StreamingChannel(StreamingAir):
    """The uplink: the streams of N clients become the server's stream, sample for sample."""

    def __init__(
        self,
        links: Sequence[Link],
        receiver: Receiver,
        sample_rate_hz: float,
        seed: int,
        *,
        clock_seed: int = 1,
        coherence_samples: int = 0,
        max_delay_samples: int = 4096,
        max_drift_samples: int = 16_384,
    ) -> None:
        super().__init__(
            "up", links, [receiver], sample_rate_hz, seed, clock_seed, coherence_samples, max_delay_samples,
            max_drift_samples,
        )  # fmt: skip

    @property
    def receiver(self) -> Receiver:
        """Return the settings of the server's receiver."""
        return self._receivers[0]

    def set_receiver(self, receiver: Receiver) -> None:
        """Apply a new receiver from the next block on."""
        self.set_receivers([receiver])

    def push(self, chunk: Chunk) -> Samples:
        """Take the next samples of each client, complex64 (N, n), and return the server's next n samples."""
        return self._push(_rows(chunk))[0]


class StreamingBroadcast(StreamingAir):
    """The downlink: the server's stream becomes the streams of N clients, each with its own receiver."""

    def __init__(
        self,
        links: Sequence[Link],
        receivers: Sequence[Receiver],
        sample_rate_hz: float,
        seed: int,
        *,
        clock_seed: int = 1,
        coherence_samples: int = 0,
        max_delay_samples: int = 4096,
        max_drift_samples: int = 16_384,
    ) -> None:
        fits = len(receivers) == len(links)
        require(fits, "receivers", f"{len(receivers)} receivers", f"one for each of {len(links)} clients")
        super().__init__(
            "down", links, receivers, sample_rate_hz, seed, clock_seed, coherence_samples, max_delay_samples,
            max_drift_samples,
        )  # fmt: skip

    def push(self, chunk: npt.ArrayLike) -> Samples:
        """Take the server's next n samples, complex64, and return the next n samples of each client, (N, n)."""
        return self._push([chunk])


def _rows(chunk: Chunk) -> list[npt.ArrayLike]:
    return list(chunk) if isinstance(chunk, Sequence | np.ndarray) else list(np.asarray(chunk))
