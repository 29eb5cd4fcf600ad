# SPDX-License-Identifier: GPL-3.0-or-later
"""ADALM-Pluto: the driver. pyadi-iio sets and reads its attributes, pylibiio carries its samples, both by public names.

A radio is left as it was found: see ``pluto_state`` for what is set up, checked and restored. ``pluto_streams`` has the
threads that move samples.

Methods here keep no object of libiio in a local variable while an error may leave them: the error would keep it open.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import adi
import iio

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
from oac_blocks.radio.pluto_device import release_frames
from oac_blocks.radio.pluto_streams import PlutoStreams

_log = logging.getLogger(__name__)
_RATE_TOLERANCE_HZ = 8.0
_LO_TOLERANCE_HZ = 8.0
_BANDWIDTH_TOLERANCE_HZ = 8.0
_RESTORE_MILLISECONDS = 5000  # for one request to a radio that may be frozen, so that close does not wait longer


class PlutoRadio(Radio):
    """A Pluto, real or virtual.

    Parameters
    ----------
    uri : str
        Place of the radio, such as ``ip:192.168.2.1`` or ``usb:1.2.5``.
    config : RadioConfig, optional
        Settings; checked against the limits of an AD9361, and then against what the radio reports of its own chip.
    timeout_seconds : float
        Longest time that the device may take for one request. On virtual radios in lock-step it includes the time that
        the radio waits for the others.
    found : PlutoState, optional
        The state to leave the radio in. Default: the state that it is in now. A program that lost the radio and opens
        it again passes the ``found`` of the first time, because the radio may now have the program's own settings.
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
        self._streams: PlutoStreams | None = None
        self._looped = False
        try:
            self._device = adi.Pluto(uri_ctx=iio.Context(uri))
        except Exception as error:
            raise RadioError(f"no Pluto at {uri}: {getattr(error, 'strerror', None) or error}") from None
        try:
            with self._errors("set the time limit of"):
                self._device.ctx.set_timeout(round(1000 * timeout_seconds))
            self.config = self.configure(config)
        except BaseException as error:
            release_frames(error)
            self.close()
            raise

    @property
    def underflows(self) -> int:
        """Return how often the transmitter was seen to run out of samples since the streams were started."""
        return self._streams.underflows if self._streams else 0

    @property
    def overflows(self) -> int:
        """Return how often received samples were seen to be lost since the streams were started."""
        return self._streams.overflows if self._streams else 0

    @classmethod
    def probe(cls, uri: str) -> RadioInfo:
        return pluto_probe.probe(uri)

    @classmethod
    def scan(cls) -> dict[str, str]:
        return pluto_probe.scan()

    def describe(self) -> RadioInfo:
        with self._errors("describe"):
            return pluto_probe.probe(self._opened().ctx, self.uri)

    def configure(self, config: RadioConfig) -> RadioConfig:
        require(self._streams is None, "configure", "a radio that streams", "called before start or after stop")
        config.check(self.limits)
        with self._errors("configure"):
            self._write(config)
            there, mode = self._read(config)
        if mode != "manual":
            raise RadioError(f"{self.uri}: gain_control_mode is {mode!r} after it was set to 'manual'")
        self._compare(config, there)
        self.config = there
        return there

    def _write(self, config: RadioConfig) -> None:
        device = self._opened()
        rx_bandwidth_hz, tx_bandwidth_hz = config.bandwidths_hz(self.limits)
        pluto_state.check_tuning(device.ctx, rx_lo_hz=config.rx_lo_hz, tx_lo_hz=config.tx_lo_hz)
        self._take_over(device.ctx, config.tx_lo_hz is not None)
        device.sample_rate = round(config.sample_rate_hz)
        device.rx_rf_bandwidth = round(rx_bandwidth_hz)
        device.tx_rf_bandwidth = round(tx_bandwidth_hz)
        device.rx_lo = round(config.rx_lo_hz)
        device.gain_control_mode_chan0 = "manual"  # before the gain, which is ignored otherwise
        device.rx_hardwaregain_chan0 = round(config.rx_gain_db)
        pluto_state.make_ready(device.ctx, config.tx_lo_hz)
        if config.tx_lo_hz is not None:
            device.tx_hardwaregain_chan0 = ad9361.TX_GAIN_DB.nearest(config.tx_gain_db)

    def _read(self, config: RadioConfig) -> tuple[RadioConfig, str]:
        """Return the settings that the device has now, and its gain control mode."""
        device, transmits = self._opened(), config.tx_lo_hz is not None
        there = RadioConfig(
            sample_rate_hz=float(device.sample_rate),
            rx_lo_hz=float(device.rx_lo),
            tx_lo_hz=float(device.tx_lo) if transmits else None,
            rx_gain_db=float(device.rx_hardwaregain_chan0),
            tx_gain_db=float(device.tx_hardwaregain_chan0) if transmits else config.tx_gain_db,
            rx_bandwidth_hz=float(device.rx_rf_bandwidth),
            tx_bandwidth_hz=float(device.tx_rf_bandwidth),
        )
        return there, str(device.gain_control_mode_chan0)

    def set_digital_loopback(self, on: bool) -> None:
        """Return the transmitted samples to the receiver inside the chip. The radio must have no ``tx_lo_hz``."""
        require(self._streams is None, "set_digital_loopback", "a radio that streams", "called before start")
        off = self.config.tx_lo_hz is None
        require(off, "tx_lo_hz", self.config.tx_lo_hz, "None for a test that is not to be heard")
        with self._errors("loop back"):
            pluto_state.set_loopback(self._opened().ctx, int(on))
        self._looped = on

    def _take_over(self, context: iio.Context, transmits: bool) -> None:
        found = pluto_state.make_ready(context, None)
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
        with self._errors("start"):
            self._streams = PlutoStreams(self._opened().ctx, stream, self._sends)

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
        if self._device is None:
            return
        try:
            self._restore()
        finally:
            self._device = None  # the last reference: libiio closes the context

    def _restore(self) -> None:
        if self.found is None:
            return
        with contextlib.suppress(OSError):
            self._device.ctx.set_timeout(_RESTORE_MILLISECONDS)
        failed = pluto_state.restore(self._device.ctx, self.found)
        if failed:
            _log.warning("%s was not left as it was found: %s", self.uri, "; ".join(failed))

    def _opened(self) -> Any:
        if self._device is None:
            raise RadioError(f"{self.uri} is closed")
        return self._device

    def _started(self) -> PlutoStreams:
        if self._streams is None:
            raise RadioStopped(f"{self.uri} does not stream: call start first")
        return self._streams

    def _compare(self, wanted: RadioConfig, there: RadioConfig) -> None:
        gain = replace(wanted, rx_gain_db=round(wanted.rx_gain_db))
        for name, asked, got, tolerance in (
            ("sample_rate_hz", wanted.sample_rate_hz, there.sample_rate_hz, _RATE_TOLERANCE_HZ),
            ("rx_lo_hz", wanted.rx_lo_hz, there.rx_lo_hz, _LO_TOLERANCE_HZ),
            ("tx_lo_hz", wanted.tx_lo_hz, there.tx_lo_hz, _LO_TOLERANCE_HZ),
            # A bandwidth that was not asked for may be narrower than the rate: an AD9363A filters 20 MHz at most.
            ("rx_bandwidth_hz", wanted.rx_bandwidth_hz, there.rx_bandwidth_hz, _BANDWIDTH_TOLERANCE_HZ),
            ("tx_bandwidth_hz", wanted.tx_bandwidth_hz, there.tx_bandwidth_hz, _BANDWIDTH_TOLERANCE_HZ),
            ("rx_gain_db", gain.rx_gain_db, there.rx_gain_db, 0.5),
            ("tx_gain_db", wanted.tx_gain_db, there.tx_gain_db, 0.13),
        ):
            if asked is not None and got is not None and abs(asked - got) > tolerance:
                raise RadioError(f"{self.uri}: {name} is {got:.12g} after it was set to {asked:.12g}")

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn errors of libiio into RadioError with the radio that they are about."""
        try:
            yield
        except OSError as error:
            release_frames(error)
            busy = ": another program streams with it; end that one first" if error.errno == errno.EBUSY else ""
            raise RadioError(f"cannot {doing} {self.uri}: {error.strerror or error}{busy}") from error
        except RadioError as error:
            release_frames(error)
            if self.uri in str(error):
                raise
            raise type(error)(f"{self.uri}: {error}") from error
