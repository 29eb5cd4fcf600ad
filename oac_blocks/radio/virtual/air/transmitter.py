# SPDX-License-Identifier: GPL-3.0-or-later
"""A radio's transmit stream, sample after sample: from its buffers, from its tone generators, or silence.

Blocks are queued back to back. If there is none when its time has come, the transmitter sends silence, which is an
underflow, and the next block begins where the silence ends.

The stream is *known* up to ``end``, and *written* into the history only as far as a receiver asks for it. So neither a
long silence nor a transmitter without a receiver costs memory or time: queued blocks stay as the client sent them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.sample_history import SampleHistory
from oac_blocks.dsp.phasor import phasors
from oac_blocks.radio.ad9361 import TX_FULL_SCALE
from oac_blocks.radio.virtual.air.timeline import Timeline
from oac_blocks.radio.virtual.iiod.settings import Tone

Samples = npt.NDArray[np.complex64]
Words = npt.NDArray[np.int16]
REACH = 1 << 16  # zeros before the first sample, for filters and echoes that look back
PIECE = 1 << 15  # samples that are written at a time
_LONG_AGO = 1 << 18  # samples by which a receiver that listens all the time is never behind
_KEPT_PLACES = 4096
_DAC_STEP = 16  # the converter passes 12 of 16 bits


class Block(Protocol):
    """Samples that a client has queued, such as a complex64 array."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Samples: ...


@dataclass(frozen=True)
class WordBlock:
    """Interleaved 16-bit words of the enabled channels as the client sent them, half the size of complex samples."""

    words: Words
    mask: int

    def __len__(self) -> int:
        return len(self.words) // self._channels

    def __getitem__(self, part: slice, /) -> Samples:
        first, last, _ = part.indices(len(self))
        return samples_from_words(self.words[first * self._channels : last * self._channels], self.mask)

    @property
    def _channels(self) -> int:
        return bin(self.mask).count("1")


class Buffer:
    """An open transmit buffer, with the blocks that were taken and are not sent yet."""

    def __init__(self, kernel_buffers: int, cyclic: bool, reserved_samples: int = 0) -> None:
        self.kernel_buffers = kernel_buffers
        self.cyclic = cyclic
        self.reserved_samples = reserved_samples  # samples of its blocks, including the one that is on its way
        self.ends: deque[int] = deque()  # ends of the queued blocks, as places in the stream
        self.taken = 0  # samples that were taken so far
        self.places: deque[tuple[int, int]] = deque(maxlen=_KEPT_PLACES)  # (sample, place) where it jumps
        self.loop: Block = np.zeros(0, np.complex64)
        self.loop_at = 0

    def place(self, sample: int) -> int:
        """Return the place in the stream of this sample of the buffer."""
        return max((start + sample - first for first, start in self.places if first <= sample), default=sample)


class Transmitter:
    def __init__(self, timeline: Timeline, underflow: Callable[[], None]) -> None:
        self.timeline = timeline
        self._underflow = underflow
        self.history = SampleHistory(REACH)
        self.first = timeline.first  # place in the stream of the history's sample 0
        self.written = timeline.first  # place up to which the history is written
        self.end = timeline.first  # place up to which the stream is known
        self.oldest = timeline.first - REACH  # place from which the stream is kept
        self._blocks: deque[tuple[int, Block]] = deque()  # (place, block) of the blocks that are not wholly written yet
        self.buffer: Buffer | None = None
        self.tones: Sequence[Tone] = ()
        self.start_at = 0  # earliest place of a buffer's first sample
        self.underflows = 0

    @property
    def streaming(self) -> bool:
        """Return whether a client hands over the samples one block after the other."""
        return self.buffer is not None and not self.buffer.cyclic

    @property
    def held_samples(self) -> int:
        """Return the samples for which queued blocks take or reserve memory, also after their buffer was closed."""
        queued = sum(len(block) for _, block in self._blocks)
        return max(queued, self.buffer.reserved_samples if self.buffer is not None else 0)

    def open(self, kernel_buffers: int, cyclic: bool, reserved_samples: int = 0) -> Buffer:
        self.buffer = Buffer(kernel_buffers, cyclic, reserved_samples)
        return self.buffer

    def close(self) -> None:
        self.buffer = None

    def change_rate(self, rate_hz: float, at: int) -> None:
        """Drop what was queued and begin the stream anew at this place, at another rate."""
        self.timeline = self.timeline.changed(rate_hz, at)
        self._blocks.clear()
        self.end = at
        self._begin_at(at)
        if self.buffer is not None:
            self.buffer.ends.clear()

    def push(self, block: Block) -> None:
        """Queue the next block of the open buffer."""
        buffer = self.buffer
        if buffer is None:
            return
        if buffer.cyclic:
            # A short loop is repeated until it is worth copying.
            buffer.loop = np.tile(block[:], PIECE // len(block)) if 0 < len(block) < PIECE else block
            buffer.loop_at = max(self.end, self.start_at)
            return
        if not buffer.taken:
            self.end = max(self.end, self.start_at)
        if not buffer.places or buffer.place(buffer.taken) != self.end:
            buffer.places.append((buffer.taken, self.end))
        self._blocks.append((self.end, block))
        self.end += len(block)
        buffer.taken += len(block)
        buffer.ends.append(self.end)

    def lose(self, samples: int) -> None:
        """Add an underflow of so many samples behind the queued blocks."""
        self.end += samples
        self._count_underflow()

    def fill(self, end: int) -> None:
        """Fix the stream up to this place, with silence where no block is queued: its time has come."""
        if self.end >= end:
            return
        if self.streaming:
            if self.buffer is not None and self.buffer.taken:
                self._count_underflow()
            self.end = end  # there is silence without a block
            return
        if end - self.end > _LONG_AGO:
            self.end = end - _LONG_AGO // 2  # no receiver has listened for a while
            self._begin_at(self.end)
        self.write(self.end)
        while self.end < end:
            self._extend(self._generated(self.end, min(end - self.end, PIECE)))
            self.end = self.written

    def write(self, end: int) -> None:
        """Write the stream into the history up to this place, or as far as it is known."""
        end = min(end, self.end)
        while self.written < end:
            count = min(end - self.written, PIECE)
            place, block = self._blocks[0] if self._blocks else (end, np.zeros(0, np.complex64))
            if place > self.written:
                self._extend(np.zeros(min(count, place - self.written), np.complex64))
                continue
            first = self.written - place
            self._extend(block[first : min(first + count, len(block))])
            if self.written >= place + len(block):
                self._blocks.popleft()

    def around(self, place: int, count: int) -> Samples:
        """Return samples from around this place: the latest ones of a stream, or some of a loop or of the tones."""
        if not self.streaming:
            return self._generated(place, count)
        end = min(place, self.end)
        self.write(end)
        begin = min(max(place - count, self.oldest), end)
        return self.history.windows(np.array([begin - self.first]), end - begin)[0]

    def sent(self, place: int) -> None:
        """Free the blocks before this place: they are on the air."""
        if self.buffer is not None:
            while self.buffer.ends and self.buffer.ends[0] <= place:
                self.buffer.ends.popleft()

    @property
    def full(self) -> bool:
        buffer = self.buffer
        return buffer is not None and len(buffer.ends) >= buffer.kernel_buffers

    def forget(self, before: int) -> None:
        """Drop what was sent before this place: no receiver will ask for it."""
        if min(before, self.end) - self.written > _LONG_AGO:  # no receiver has asked for a while
            self._begin_at(min(before, self.end))
        self.oldest = max(self.oldest, min(before, self.written))
        self.history.forget(self.oldest - self.first)

    def _begin_at(self, place: int) -> None:
        """Begin the history anew at this place; there is silence before it."""
        self.history = SampleHistory(REACH)
        self.first = self.written = place
        self.oldest = place - REACH
        while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= place:
            self._blocks.popleft()

    def _count_underflow(self) -> None:
        self.underflows += 1
        self._underflow()

    def _extend(self, samples: Samples) -> None:
        self.history.push(samples)
        self.written += len(samples)

    def _generated(self, first: int, count: int) -> Samples:
        buffer = self.buffer
        if buffer is not None and len(buffer.loop):
            return _repeated(buffer.loop, first - buffer.loop_at, count)
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


def _repeated(loop: Block, first: int, count: int) -> Samples:
    """Return samples of a loop that begins at 0 and has no end."""
    out = np.zeros(count, np.complex64)
    at = max(0, -first)
    while at < count:
        begin = (first + at) % len(loop)
        some = loop[begin : min(begin + count - at, len(loop))]
        out[at : at + len(some)] = some
        at += len(some)
    return out


def converted(samples: npt.NDArray[np.complexfloating]) -> Samples:
    """Return what the converter makes of 16-bit values: it passes 12 bits, and full scale is 1."""
    parts = np.ascontiguousarray(samples, np.complex64).view(np.float32)
    parts = np.floor(parts / _DAC_STEP) * np.float32(_DAC_STEP / TX_FULL_SCALE)
    return np.clip(parts, -1, 1 - _DAC_STEP / TX_FULL_SCALE).view(np.complex64)


def samples_from_words(words: Words, mask: int) -> Samples:
    """Return the samples that the converter makes of interleaved words of the enabled channels (I, Q or both)."""
    steps = (words >> int(math.log2(_DAC_STEP))).astype(np.float32)
    steps *= np.float32(_DAC_STEP / TX_FULL_SCALE)
    if mask == 3:
        return steps.view(np.complex64)
    parts = np.zeros((len(words), 2), np.float32)
    parts[:, 0 if mask == 1 else 1] = steps
    return parts.reshape(-1).view(np.complex64)
