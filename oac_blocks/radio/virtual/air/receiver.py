# SPDX-License-Identifier: GPL-3.0-or-later
"""The receive side of a radio: its converter, and the kernel's buffers behind it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from oac_blocks.radio.ad9361 import RX_FULL_SCALE

Samples = npt.NDArray[np.complex64]
Words = npt.NDArray[np.int16]


class ReceiveQueue:
    """An open receive buffer. The DMA fills free blocks one after the other; without a free one, samples are lost.

    The client holds the block that it got last until it asks for the next one, as iiod does: after a while of idling
    there are ``kernel_buffers - 1`` stale blocks.
    """

    def __init__(self, block_samples: int, kernel_buffers: int, mask: int, overflow: Callable[[], None]) -> None:
        self.block_samples, self.kernel_buffers, self.mask = block_samples, kernel_buffers, mask
        self._overflow = overflow
        self._filled: deque[Words] = deque()
        self._filling: Words | None = None  # the block that is being filled; memory is taken as samples come
        self._filling_samples = 0
        self._held = False
        self._losing = False
        self.started_at: int | None = None  # place of the buffer's first sample in the stream
        self.overflows = 0
        self.places: deque[tuple[int, int]] = deque(maxlen=4096)  # (sample of the buffer, place) where it jumps
        self._taken = 0

    @property
    def reserved_samples(self) -> int:
        """Return the samples of all its blocks together."""
        return self.kernel_buffers * self.block_samples

    @property
    def ready(self) -> bool:
        return bool(self._filled)

    @property
    def room_samples(self) -> int:
        """Return the samples that can come before one is lost."""
        free = self.kernel_buffers - len(self._filled) - int(self._held)
        return free * self.block_samples - self._filling_samples

    def push(self, words: Words, place: int) -> None:
        """Take received words (n, 2) that begin at this place in the stream."""
        if self.started_at is None:
            self.started_at = place
        while len(words):
            if self._filling is None and self.room_samples <= 0:
                if not self._losing:
                    self._losing = True
                    self.overflows += 1
                    self._overflow()
                return
            if self._filling is None:
                if not self.places or self._losing:
                    self.places.append((self._taken, place))
                self._losing = False
                self._filling = np.empty((self.block_samples, 2), np.int16)
            some = words[: self.block_samples - self._filling_samples]
            self._filling[self._filling_samples : self._filling_samples + len(some)] = some
            self._filling_samples += len(some)
            self._taken += len(some)
            place += len(some)
            words = words[len(some) :]
            if self._filling_samples == self.block_samples:
                self._filled.append(self._filling)
                self._filling, self._filling_samples = None, 0

    def lose(self) -> None:
        """Lose the block that is being filled, as if an error had come up on the way."""
        self._taken -= self._filling_samples
        self._filling, self._filling_samples = None, 0
        self._losing = True
        self.overflows += 1
        self._overflow()

    def release(self) -> None:
        """Let the block that the client holds be filled again: it asks for the next one."""
        self._held = False

    def pop(self) -> Words | None:
        """Return the oldest block, which the client holds from now on, or None if there is none yet."""
        if not self._filled:
            return None
        self._held = True
        block = self._filled.popleft()
        if self.mask == 3:
            return block
        return np.ascontiguousarray(block[:, 0 if self.mask == 1 else 1])

    def sample(self, place: float) -> float:
        """Return the sample of the buffer that was taken at this place of the stream."""
        at = math.nan
        for first, start in self.places:
            if start <= place:
                at = first + place - start
        return at


def words_from_samples(samples: Samples) -> Words:
    """Return words (n, 2) of 12 bits, clipped; full scale is 1."""
    parts = samples.view(np.float32) * np.float32(RX_FULL_SCALE)
    np.rint(parts, out=parts)
    np.clip(parts, -RX_FULL_SCALE, RX_FULL_SCALE - 1, out=parts)
    return parts.astype(np.int16).reshape(-1, 2)
