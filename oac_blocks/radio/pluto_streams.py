# SPDX-License-Identifier: GPL-3.0-or-later
"""The two sample streams of a Pluto, through pylibiio.

One thread for each direction moves blocks between the device and a queue of bounded length. After every few blocks the
thread reads and clears the device's own flag for lost samples. The next received block reports what was found.

pylibiio closes a buffer when the last reference to it goes, and has no other way. libiio crashes if a buffer outlives
its context, so each ``_Direction`` here holds the only reference to its buffer, and errors keep no frames that do.
"""

from __future__ import annotations

import contextlib
import errno
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import iio
import numpy as np
import numpy.typing as npt

from oac_blocks.radio import ad9361
from oac_blocks.radio.base import RadioError, RadioStopped, Received, Samples, StreamConfig
from oac_blocks.radio.pluto_device import release_frames

RX_DEVICE, TX_DEVICE = "cf-ad9361-lpc", "cf-ad9361-dds-core-lpc"
_I_AND_Q = ("voltage0", "voltage1")
_STATUS_REGISTER = 0x80000088
_UNDERFLOW, _OVERFLOW = 1, 4
_POLL_SECONDS = 0.1  # between two looks at whether the streams failed or were stopped
_FREE_SECONDS = 3.0  # in which a device must notice that its last client has left
_LAST_BLOCK_SECONDS = 1.0  # longer than any block lasts


class PlutoStreams:
    """Both streams of an open context, each with its own thread. They run from the constructor until ``stop``.

    ``underflows`` and ``overflows`` count how often the device reported samples that it lacked or lost.
    """

    def __init__(self, context: iio.Context, config: StreamConfig, transmits: bool) -> None:
        self.config = config
        self.underflows = self.overflows = 0
        self._stopping = threading.Event()
        self._failed: OSError | None = None
        self._received: queue.Queue[Received] = queue.Queue(config.queued_blocks)
        self._to_send: queue.Queue[Samples] = queue.Queue(config.queued_blocks)
        self._lock = threading.Lock()
        self._gaps: list[str] = []
        self._receiver = _Direction(context, RX_DEVICE, False, _OVERFLOW)
        self._transmitter = _Direction(context, TX_DEVICE, True, _UNDERFLOW)
        self._moving = [(self._thread(self._receive_all, "pluto rx"), self._receiver)]
        if transmits:
            self._moving.append((self._thread(self._send_all, "pluto tx"), self._transmitter))
        try:
            self._open(transmits)
        except BaseException as error:
            release_frames(error)
            self._close()
            raise
        for thread, _ in self._moving:
            thread.start()

    def _open(self, transmits: bool) -> None:
        """Open both buffers with as little as possible between the beginning of one stream and of the other.

        Receiving begins when its buffer is opened, and sending with the first block. The time between the two is the
        offset between the streams, and no program can know it.
        """
        config = self.config
        for direction in (self._receiver, self._transmitter):
            direction.prepare(config.kernel_buffers)
        if transmits:
            self._transmitter.open(config.block_samples)
        self._receiver.open(config.block_samples)
        if transmits:
            for _ in range(config.primed_blocks):
                self._transmitter.write(np.zeros(2 * config.block_samples, np.int16))
        for direction in (self._receiver, self._transmitter):
            direction.clear_lost()  # what the opening of the buffers left behind is no gap

    def receive(self, timeout_seconds: float) -> Received:
        """Return the next block; raise what ended the stream, or RadioError after ``timeout_seconds``."""
        received: Received = self._wait_for(
            lambda: self._received.get(timeout=_POLL_SECONDS), queue.Empty, timeout_seconds
        )
        return received

    def transmit(self, samples: Samples, timeout_seconds: float) -> None:
        """Queue a block; raise what ended the stream, or RadioError after ``timeout_seconds`` without room."""
        self._wait_for(lambda: self._to_send.put(samples, timeout=_POLL_SECONDS), queue.Full, timeout_seconds)

    def stop(self) -> None:
        """End the threads, then close their buffers: libiio does not allow the other order.

        The transmitter ends first. On virtual radios in lock-step the others then no longer wait for it, time goes on,
        and the receiver gets the last block that it waits for. A buffer is cancelled only if its thread does not end by
        itself, because libiio cannot close a cancelled buffer properly and prints an error.
        """
        self._stopping.set()
        for thread, direction in reversed(self._moving):
            thread.join(_LAST_BLOCK_SECONDS)
            if thread.is_alive():
                direction.cancel()
                thread.join()
            direction.close()
        self._close()

    def _close(self) -> None:
        self._transmitter.close()
        self._receiver.close()

    def _wait_for(self, attempt: Callable[[], Any], not_yet: type[Exception], timeout_seconds: float) -> Any:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                return attempt()
            except not_yet:
                if self._failed is not None:
                    raise self._failed from None
                if self._stopping.is_set():
                    raise RadioStopped("the streams were stopped") from None
                if time.monotonic() > deadline:
                    raise RadioError(f"nothing moved for {timeout_seconds:g} s") from None

    def _thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except OSError as error:
                if not self._stopping.is_set():
                    self._failed = error.with_traceback(None)

        return threading.Thread(target=run, name=name, daemon=True)

    def _receive_all(self) -> None:
        first = blocks = 0
        while not self._stopping.is_set():
            words = self._receiver.read()
            samples = (words * np.float32(1 / ad9361.RX_FULL_SCALE)).view(np.complex64)
            blocks += 1
            if blocks % self.config.blocks_per_poll == 0 and self._receiver.clear_lost():
                self.overflows += 1
                self._note("received samples were lost")
            with self._lock:
                gaps, self._gaps = tuple(self._gaps), []
            self._put(Received(samples, first, gaps))
            first += len(samples)

    def _send_all(self) -> None:
        blocks, scale = 0, ad9361.TX_FULL_SCALE
        while not self._stopping.is_set():
            try:
                samples = self._to_send.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            parts = np.rint(samples.view(np.float32) * np.float32(scale))
            self._transmitter.write(np.clip(parts, -scale, scale - 1).astype(np.int16))
            blocks += 1
            if blocks % self.config.blocks_per_poll == 0 and self._transmitter.clear_lost():
                self.underflows += 1
                self._note("the transmitter ran out of samples")

    def _note(self, gap: str) -> None:
        with self._lock:
            if gap not in self._gaps:
                self._gaps.append(gap)

    def _put(self, received: Received) -> None:
        while not self._stopping.is_set():
            try:
                self._received.put(received, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                continue


class _Direction:
    """One direction of a Pluto: a libiio device with a channel for I and one for Q, its buffer and its flag."""

    def __init__(self, context: iio.Context, name: str, output: bool, flag: int) -> None:
        self._device: Any = context.find_device(name)
        self._output, self._flag = output, flag
        self._buffer: Any = None

    def prepare(self, kernel_buffers: int) -> None:
        self._device.set_kernel_buffers_count(kernel_buffers)
        for channel in self._device.channels:
            if channel.scan_element:
                channel.enabled = channel.output == self._output and channel.id in _I_AND_Q

    def open(self, block_samples: int) -> None:
        """Open the buffer. A device takes a moment to notice that its last client has left."""
        deadline = time.monotonic() + _FREE_SECONDS
        while self._buffer is None:
            try:
                self._buffer = iio.Buffer(self._device, block_samples, False)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS / 10)

    def read(self) -> npt.NDArray[np.int16]:
        """Wait for a block of samples and return its words, I and Q in turn."""
        self._buffer.refill()
        return np.frombuffer(self._buffer.read(), np.int16)

    def write(self, words: npt.NDArray[np.int16]) -> None:
        """Hand a block of words, I and Q in turn, to the device."""
        self._buffer.write(words.view(np.uint8))
        self._buffer.push()

    def clear_lost(self) -> bool:
        """Return whether the device has lost samples since the last call, and clear its flag."""
        if not self._device.reg_read(_STATUS_REGISTER) & self._flag:
            return False
        self._device.reg_write(_STATUS_REGISTER, self._flag)
        return True

    def cancel(self) -> None:
        """Wake the thread that waits for the device."""
        with contextlib.suppress(OSError):
            self._buffer.cancel()

    def close(self) -> None:
        """Drop the buffer and the device; the buffer is closed by that. Further calls do nothing."""
        self._buffer = self._device = None
