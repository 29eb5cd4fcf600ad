# SPDX-License-Identifier: GPL-3.0-or-later
"""A radio's transmit stream: what its buffers, its generators or nobody put there, sample after sample.

Blocks are queued back to back. If there is none when its time has come, the transmitter sends silence, which is an
underflow, and the next block begins where the silence ends.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.sample_history import SampleHistory
from oac_blocks.radio.limits import TX_FULL_SCALE
from oac_blocks.radio.virtual.settings import Tone
from oac_blocks.radio.virtual.timeline import Timeline

Samples = npt.NDArray[np.complex64]
Words = npt.NDArray[np.int16]
REACH = 1 << 16  # zeros before the first sample, for who looks back
_PIECE = 1 << 15
_LONG_AGO = 1 << 18
_KEPT_PLACES = 4096
_DAC_STEP = 16  # 12 bits of 16 get through


class Buffer:
    """An open buffer: blocks that were taken and are not sent yet."""

    def __init__(self, kernel_buffers: int, cyclic: bool) -> None:
        self.kernel_buffers = kernel_buffers
        self.cyclic = cyclic
        self.ends: deque[int] = deque()  # of the queued blocks, as places in the stream
        self.taken = 0  # samples so far
        self.places: deque[tuple[int, int]] = deque(maxlen=_KEPT_PLACES)  # (sample, place): where it jumps
        self.loop = np.zeros(0, np.complex64)
        self.loop_at = 0

    def place(self, sample: int) -> int:
        """Where in the stream this sample of the buffer went."""
        return max((start + sample - first for first, start in self.places if first <= sample), default=sample)


class Transmitter:
    def __init__(self, timeline: Timeline, underflow: Callable[[], None]) -> None:
        self.timeline = timeline
        self._underflow = underflow
        self.history = SampleHistory(REACH)
        self.first = timeline.first  # place in the stream of the history's sample 0
        self.end = timeline.first  # the stream is known up to here
        self.oldest = timeline.first - REACH  # and from here on
        self.buffer: Buffer | None = None
        self.tones: Sequence[Tone] = ()
        self.start_at = 0  # a buffer's first sample goes here or later
        self.underflows = 0

    @property
    def streaming(self) -> bool:
        """Is somebody to say what comes next?"""
        return self.buffer is not None and not self.buffer.cyclic

    def open(self, kernel_buffers: int, cyclic: bool) -> Buffer:
        self.buffer = Buffer(kernel_buffers, cyclic)
        return self.buffer

    def close(self) -> None:
        self.buffer = None

    def change_rate(self, rate_hz: float, at: int) -> None:
        """What was queued is void: the stream begins anew at this place, at another rate."""
        self.timeline = self.timeline.changed(rate_hz, at)
        self._begin_at(at)
        if self.buffer is not None:
            self.buffer.ends.clear()

    def push(self, samples: Samples) -> None:
        """The next block of the open buffer."""
        buffer = self.buffer
        if buffer is None:
            return
        if buffer.cyclic:
            buffer.loop, buffer.loop_at = samples, max(self.end, self.start_at)
            return
        if not buffer.taken and self.end < self.start_at:
            self._extend(np.zeros(self.start_at - self.end, np.complex64))
        if not buffer.places or buffer.place(buffer.taken) != self.end:
            buffer.places.append((buffer.taken, self.end))
        self._extend(samples)
        buffer.taken += len(samples)
        buffer.ends.append(self.end)

    def lose(self, samples: int) -> None:
        """An underflow at the end of what is queued, for so many samples."""
        self._extend(np.zeros(samples, np.complex64))
        self._count_underflow()

    def fill(self, end: int) -> None:
        """Time has come to this place, or somebody asks for what is sent up to it and nobody can say otherwise."""
        if self.end >= end:
            return
        if self.streaming:
            if self.buffer is not None and self.buffer.taken:
                self._count_underflow()
            self._extend(np.zeros(end - self.end, np.complex64))
            return
        if end - self.end > _LONG_AGO:
            self._begin_at(end - _LONG_AGO // 2)  # nobody has listened for a while
        while self.end < end:
            self._extend(self._generated(self.end, min(end - self.end, _PIECE)))

    def around(self, place: int, count: int) -> Samples:
        """What is on the air at this place: the latest samples of a stream, or some of what repeats or is generated."""
        if not self.streaming:
            return self._generated(place, count)
        end = min(place, self.end)
        begin = min(max(place - count, self.oldest), end)
        return self.history.windows(np.array([begin - self.first]), end - begin)[0]

    def sent(self, place: int) -> None:
        """All before this place is on the air: its blocks are free again."""
        if self.buffer is not None:
            while self.buffer.ends and self.buffer.ends[0] <= place:
                self.buffer.ends.popleft()

    @property
    def full(self) -> bool:
        buffer = self.buffer
        return buffer is not None and len(buffer.ends) >= buffer.kernel_buffers

    def forget(self, before: int) -> None:
        self.oldest = max(self.oldest, min(before, self.end))
        self.history.forget(self.oldest - self.first)

    def _begin_at(self, place: int) -> None:
        self.history = SampleHistory(REACH)
        self.first = self.end = place
        self.oldest = place - REACH

    def _count_underflow(self) -> None:
        self.underflows += 1
        self._underflow()

    def _extend(self, samples: Samples) -> None:
        for begin in range(0, len(samples), _PIECE):
            self.history.push(samples[begin : begin + _PIECE])
        self.end += len(samples)

    def _generated(self, first: int, count: int) -> Samples:
        buffer = self.buffer
        if buffer is not None and len(buffer.loop):
            begin = max(0, buffer.loop_at - first)
            out = np.zeros(count, np.complex64)
            if begin < count:
                at = (first + np.arange(begin, count) - buffer.loop_at) % len(buffer.loop)
                out[begin:] = buffer.loop[at]
            return out
        loud = [tone for tone in self.tones if tone.scale]
        if buffer is not None or not loud:
            return np.zeros(count, np.complex64)
        parts = np.zeros((2, count))
        for part, tone in zip((0, 0, 1, 1), self.tones, strict=True):
            if tone.scale:
                turn = tone.frequency_hz / self.timeline.rate_hz
                start = (turn * (first - self.timeline.first) + tone.phase_degrees / 360) % 1.0
                parts[part] += tone.scale * np.imag(phasors(2 * np.pi * turn, count) * np.exp(2j * np.pi * start))
        return converted((parts[0] + 1j * parts[1]) * (TX_FULL_SCALE - 1))


def converted(samples: npt.NDArray[np.complexfloating]) -> Samples:
    """What the converter makes of 16-bit values: 12 bits of them, full scale is 1."""
    parts = np.ascontiguousarray(samples, np.complex64).view(np.float32)
    parts = np.floor(parts / _DAC_STEP) * np.float32(_DAC_STEP / TX_FULL_SCALE)
    return np.clip(parts, -1, 1 - _DAC_STEP / TX_FULL_SCALE).view(np.complex64)


def samples_from_words(words: Words, mask: int) -> Samples:
    """Interleaved 16-bit words of the enabled channels (I, Q or both), as the converter takes them."""
    parts = np.zeros((len(words) // bin(mask).count("1"), 2), np.float32)
    steps = (words >> int(math.log2(_DAC_STEP))).astype(np.float32) * np.float32(_DAC_STEP / TX_FULL_SCALE)
    if mask == 3:
        parts[:] = steps.reshape(-1, 2)
    else:
        parts[:, 0 if mask == 1 else 1] = steps
    return parts.reshape(-1).view(np.complex64)
