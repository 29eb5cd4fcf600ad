# SPDX-License-Identifier: GPL-3.0-or-later
"""ADALM-Pluto through pyadi-iio: the only module that imports it.

A radio is left as it was found: see ``pluto_state`` for what is set up, checked and restored.

A thread for each direction moves blocks between the device and a queue of bounded length. After every few blocks it
looks at the device's own flag for lost samples, and clears it: the next block that is received tells.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import adi
import numpy as np

from oac_blocks.dsp.checks import complex_array, real, require
from oac_blocks.radio import ad9361, pluto_probe, pluto_state
from oac_blocks.radio.base import (
    Radio,
    RadioConfig,
    RadioError,
    RadioInfo,
    RadioStopped,
    Received,
    Samples,
    StreamConfig,
)

_log = logging.getLogger(__name__)
_STATUS_REGISTER = 0x80000088
_UNDERFLOW, _OVERFLOW = 1, 4
_RATE_TOLERANCE_HZ = 8.0
_LO_TOLERANCE_HZ = 8.0
_BANDWIDTH_TOLERANCE_HZ = 8.0
_POLL_SECONDS = 0.1
_FREE_SECONDS = 3.0
_RESTORE_MILLISECONDS = 5000  # for one request to a radio that may be frozen; whoever closes it waits no longer
_LAST_BLOCK_SECONDS = 1.0  # more than any block lasts


class PlutoRadio(Radio):
    """``timeout_seconds`` is how long the device may take for anything, other radios of a lock-step air included.

    ``found`` is the state to leave the radio in; None: the one that it is in now. A program that lost the radio and
    opens it again gives the ``found`` of the first time, for what it finds now may be its own settings.
    """

    limits = ad9361.LIMITS

    def __init__(
        self,
        uri: str,
        config: RadioConfig | None = None,
        *,
        timeout_seconds: float = 30.0,
        found: pluto_state.PlutoState | None = None,
    ) -> None:
        require(isinstance(uri, str) and uri != "", "uri", repr(uri), "as in ip:192.168.2.1 or usb:1.2.5")
        config = RadioConfig() if config is None else config
        config.check(self.limits)
        real("timeout_seconds", timeout_seconds, 0.1, 3600.0)
        self.uri = uri
        self.found = found
        self._device: Any = None
        self._streams: _Streams | None = None
        self._looped = False
        try:
            self._device = adi.Pluto(uri=uri)
        except Exception as error:
            raise RadioError(f"no Pluto at {uri}: {error}") from None
        with self._errors("set the time limit of"):
            self._device.ctx.set_timeout(round(1000 * timeout_seconds))
        try:
            self.config = self.configure(config)
        except BaseException:
            self.close()
            raise

    @property
    def underflows(self) -> int:
        """Of the transmitter since the streams were started, as far as they were noticed."""
        return self._streams.underflows if self._streams else 0

    @property
    def overflows(self) -> int:
        return self._streams.overflows if self._streams else 0

    @classmethod
    def probe(cls, uri: str) -> RadioInfo:
        return pluto_probe.probe(uri)

    @classmethod
    def scan(cls) -> dict[str, str]:
        return pluto_probe.scan()

    def describe(self) -> RadioInfo:
        return pluto_probe.describe(self.uri, self._opened().ctx)

    def configure(self, config: RadioConfig) -> RadioConfig:
        require(self._streams is None, "configure", "a radio that streams", "called before start or after stop")
        config.check(self.limits)
        rx_bandwidth_hz, tx_bandwidth_hz = config.bandwidths_hz(self.limits)
        device = self._opened()
        with self._errors("configure"):
            pluto_state.check_tuning(device.ctx, rx_lo_hz=config.rx_lo_hz, tx_lo_hz=config.tx_lo_hz)
            self._take_over(device, config.tx_lo_hz is not None)
            device.sample_rate = round(config.sample_rate_hz)
            device.rx_rf_bandwidth = round(rx_bandwidth_hz)
            device.tx_rf_bandwidth = round(tx_bandwidth_hz)
            device.rx_lo = round(config.rx_lo_hz)
            device.gain_control_mode_chan0 = "manual"  # or else the gain would not be taken
            device.rx_hardwaregain_chan0 = round(config.rx_gain_db)
            pluto_state.make_ready(device.ctx, config.tx_lo_hz)
            if config.tx_lo_hz is not None:
                device.tx_hardwaregain_chan0 = ad9361.TX_GAIN_DB.nearest(config.tx_gain_db)
            there = RadioConfig(
                float(device.sample_rate),
                float(device.rx_lo),
                None if config.tx_lo_hz is None else float(device.tx_lo),
                float(device.rx_hardwaregain_chan0),
                config.tx_gain_db if config.tx_lo_hz is None else float(device.tx_hardwaregain_chan0),
                float(device.rx_rf_bandwidth),
                float(device.tx_rf_bandwidth),
            )
            mode = device.gain_control_mode_chan0
        if mode != "manual":
            raise RadioError(f"{self.uri}: gain_control_mode is {mode!r} after it was set to 'manual'")
        self._compare(config, there)
        self.config = there
        return there

    def set_digital_loopback(self, on: bool) -> None:
        """The chip hands what is sent to its own receiver. For a radio without ``tx_lo_hz``: nothing leaves it."""
        require(self._streams is None, "set_digital_loopback", "a radio that streams", "called before start")
        off = self.config.tx_lo_hz is None
        require(off, "tx_lo_hz", self.config.tx_lo_hz, "None for a test that is not to be heard")
        with self._errors("loop back"):
            pluto_state.set_loopback(self._opened().ctx, int(on))
        self._looped = on

    def _take_over(self, device: Any, transmits: bool) -> None:
        found = pluto_state.make_ready(device.ctx, None)
        self._looped = False
        if self.found is not None:
            return
        self.found = found
        hindered = ", ".join(pluto_state.hindrances(found, transmits))
        if hindered:
            _log.warning("%s was left by another program so that %s; set right until it is closed", self.uri, hindered)

    @property
    def _sends(self) -> bool:
        return self._looped or self.config.tx_lo_hz is not None

    def start(self, stream: StreamConfig) -> None:
        require(self._streams is None, "start", "a radio that streams", "called once, or after stop")
        transmits = self._sends
        with self._errors("start"):
            self._streams = _Streams(self._opened(), stream, transmits)

    def receive(self, timeout_seconds: float = 10.0) -> Received:
        with self._errors("receive from"):
            return self._started().receive(timeout_seconds)

    def transmit(self, samples: Samples, timeout_seconds: float = 10.0) -> None:
        streams = self._started()
        require(self._sends, "tx_lo_hz", None, "named before anything is transmitted")
        samples = complex_array("samples", samples)
        wanted = (streams.config.block_samples,)
        require(samples.shape == wanted, "samples", f"shape {samples.shape}", f"of shape {wanted}")
        with self._errors("transmit with"):
            streams.transmit(samples, timeout_seconds)

    def stop(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.stop()

    def close(self) -> None:
        self.stop()
        device, self._device = self._device, None
        if device is None:
            return
        # Buffers are gone by now (stop). A device that is gone already cannot be restored.
        if self.found is not None:
            with contextlib.suppress(OSError):
                device.ctx.set_timeout(_RESTORE_MILLISECONDS)
            failed = pluto_state.restore(device.ctx, self.found)
            if failed:
                _log.warning("%s was not left as it was found: %s", self.uri, "; ".join(failed))
        device._rxadc = device._txdac = device._ctrl = None
        device._ctx = None

    def _opened(self) -> Any:
        if self._device is None:
            raise RadioError(f"{self.uri} is closed")
        return self._device

    def _started(self) -> _Streams:
        if self._streams is None:
            raise RadioStopped(f"{self.uri} does not stream: call start first")
        return self._streams

    def _compare(self, wanted: RadioConfig, there: RadioConfig) -> None:
        gain = replace(wanted, rx_gain_db=round(wanted.rx_gain_db))
        for name, asked, got, tolerance in (
            ("sample_rate_hz", wanted.sample_rate_hz, there.sample_rate_hz, _RATE_TOLERANCE_HZ),
            ("rx_lo_hz", wanted.rx_lo_hz, there.rx_lo_hz, _LO_TOLERANCE_HZ),
            ("tx_lo_hz", wanted.tx_lo_hz, there.tx_lo_hz, _LO_TOLERANCE_HZ),
            # Without a wish the widest that the chip can do counts as well: 20 MHz of an AD9363A, whatever the rate.
            ("rx_bandwidth_hz", wanted.rx_bandwidth_hz, there.rx_bandwidth_hz, _BANDWIDTH_TOLERANCE_HZ),
            ("tx_bandwidth_hz", wanted.tx_bandwidth_hz, there.tx_bandwidth_hz, _BANDWIDTH_TOLERANCE_HZ),
            ("rx_gain_db", gain.rx_gain_db, there.rx_gain_db, 0.5),
            ("tx_gain_db", wanted.tx_gain_db, there.tx_gain_db, 0.13),
        ):
            if asked is not None and got is not None and abs(asked - got) > tolerance:
                raise RadioError(f"{self.uri}: {name} is {got:.12g} after it was set to {asked:.12g}")

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Any:
        """libiio's errors, with the radio that they are about."""
        try:
            yield
        except OSError as error:
            busy = ": another program streams with it; end that one first" if error.errno == errno.EBUSY else ""
            raise RadioError(f"cannot {doing} {self.uri}: {error.strerror or error}{busy}") from error
        except RadioError as error:
            if self.uri in str(error):
                raise
            raise type(error)(f"{self.uri}: {error}") from error


class _Streams:
    """Both buffers of a device, a thread for each."""

    def __init__(self, device: Any, config: StreamConfig, transmits: bool) -> None:
        self.config = config
        self._device = device
        self._stopping = threading.Event()
        self._failed: OSError | None = None
        self._received: queue.Queue[Received] = queue.Queue(config.queued_blocks)
        self._to_send: queue.Queue[Samples] = queue.Queue(config.queued_blocks)
        self._lock = threading.Lock()
        self._gaps: list[str] = []
        self.underflows = self.overflows = 0
        device._rxadc.set_kernel_buffers_count(config.kernel_buffers)
        device._txdac.set_kernel_buffers_count(config.kernel_buffers)
        device.rx_buffer_size = config.block_samples
        device.tx_cyclic_buffer = False
        self._buffers: list[Any] = []
        try:
            self._open(transmits)
        except BaseException:
            self._destroy()
            raise
        for thread, _ in self._moving:
            thread.start()

    def _open(self, transmits: bool) -> None:
        """Receiving begins when its buffer is opened, sending with the first block: as little as can be in between.

        What lies in between is how far the two streams are apart, and nobody can know it.
        """
        device, config = self._device, self.config
        if transmits:
            device._tx_buffer_size = config.block_samples
            device.disable_dds()
            _when_free(device._tx_init_channels)
            self._buffers.append(device._txbuf)
        _when_free(device._rx_init_channels)
        self._buffers.append(device._rxbuf)
        self._moving = [(self._thread(self._receive_all, "pluto rx"), device._rxbuf)]
        if transmits:
            self._moving.append((self._thread(self._send_all, "pluto tx"), device._txbuf))
        if transmits:
            for _ in range(config.primed_blocks):
                device.tx(np.zeros(config.block_samples, np.complex64))
        # What the buffers' opening left behind is no gap.
        device._rxadc.reg_write(_STATUS_REGISTER, _OVERFLOW)
        device._txdac.reg_write(_STATUS_REGISTER, _UNDERFLOW)

    def receive(self, timeout_seconds: float) -> Received:
        return self._patiently(lambda: self._received.get(timeout=_POLL_SECONDS), queue.Empty, timeout_seconds)

    def transmit(self, samples: Samples, timeout_seconds: float) -> None:
        self._patiently(lambda: self._to_send.put(samples, timeout=_POLL_SECONDS), queue.Full, timeout_seconds)

    def stop(self) -> None:
        """Threads first, then buffers: libiio does not forgive the other order.

        The transmitter ends first. In lock-step, others do not wait for it then, so that their time goes on, and with
        it the last block comes that the receiver waits for. Nobody need be cancelled: libiio would print an error for
        each buffer, since after that it cannot even close it properly.
        """
        self._stopping.set()
        for thread, buffer in reversed(self._moving):
            thread.join(_LAST_BLOCK_SECONDS)
            if thread.is_alive():
                with contextlib.suppress(OSError):
                    buffer.cancel()
                thread.join()
            self._close_buffer(buffer)
        self._destroy()

    def _close_buffer(self, buffer: Any) -> None:
        """Now, and not when Python happens to collect it: then its context may be gone, and libiio crashes.

        An error that somebody keeps, with the frames that it came through, holds a buffer for as long.
        """
        if buffer._buffer is not None:
            buffer.__del__()
            buffer._buffer = None

    def _destroy(self) -> None:
        self._device.tx_destroy_buffer()
        self._device.rx_destroy_buffer()
        for buffer in self._buffers:
            self._close_buffer(buffer)
        self._buffers.clear()

    def _patiently(self, attempt: Callable[[], Any], not_yet: type[Exception], timeout_seconds: float) -> Any:
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
        return threading.Thread(target=self._guarded(work), name=name, daemon=True)

    def _guarded(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except OSError as error:
                if not self._stopping.is_set():
                    self._failed = error

        return run

    def _receive_all(self) -> None:
        first = blocks = 0
        while not self._stopping.is_set():
            raw = self._device.rx()
            samples = (raw / ad9361.RX_FULL_SCALE).astype(np.complex64)
            blocks += 1
            if blocks % self.config.blocks_per_poll == 0 and self._lost(self._device._rxadc, _OVERFLOW):
                self.overflows += 1
                self._note("received samples were lost")
            with self._lock:
                gaps, self._gaps = tuple(self._gaps), []
            self._put(Received(samples, first, gaps))
            first += len(samples)

    def _send_all(self) -> None:
        blocks = 0
        while not self._stopping.is_set():
            try:
                samples = self._to_send.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            parts = samples.view(np.float32) * np.float32(ad9361.TX_FULL_SCALE)
            words = np.clip(np.rint(parts), -ad9361.TX_FULL_SCALE, ad9361.TX_FULL_SCALE - 1).view(np.complex64)
            self._device.tx(words)
            blocks += 1
            if blocks % self.config.blocks_per_poll == 0 and self._lost(self._device._txdac, _UNDERFLOW):
                self.underflows += 1
                self._note("the transmitter ran out of samples")

    def _note(self, gap: str) -> None:
        with self._lock:
            if gap not in self._gaps:
                self._gaps.append(gap)

    def _lost(self, device: Any, flag: int) -> bool:
        if not device.reg_read(_STATUS_REGISTER) & flag:
            return False
        device.reg_write(_STATUS_REGISTER, flag)
        return True

    def _put(self, received: Received) -> None:
        while not self._stopping.is_set():
            try:
                self._received.put(received, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                continue


def _when_free(open_: Callable[[], None]) -> None:
    """A device takes a moment to notice that its last client has left."""
    deadline = time.monotonic() + _FREE_SECONDS
    while True:
        try:
            return open_()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS / 10)
