# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of a radio: settings that are read back, and two streams without gaps, or with gaps that are reported.

A driver is one module with a subclass of ``Radio``, and one entry in ``oac_blocks.radio.registry``. Programs open a
radio by its uri with ``registry.open_radio`` and know no driver.

Samples are complex64 with a full scale of 1. Both streams are cut into blocks of one size. A radio transmits nothing
until its configuration names a frequency to transmit at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.errors import OacError
from oac_blocks.radio.limits import RadioLimits

Samples = npt.NDArray[np.complex64]


class RadioError(OacError, RuntimeError):
    """The device is not there, has gone, or did not take a setting."""


class RadioStopped(RadioError):  # noqa: N818  (it is no error to the thread that stopped the streams)
    """The streams were not started, or were stopped while a thread waited for samples."""


class RadioRangeError(RadioError, ValueError):
    """The radio is there, but its hardware cannot be set to what was asked for. Asking again does not help."""


@dataclass(frozen=True)
class RadioConfig:
    """The settings of a radio. ``check`` compares them with the limits of a driver before any device is touched.

    Parameters
    ----------
    sample_rate_hz : float
        Sample rate of both streams.
    rx_lo_hz : float
        Frequency of the receiver's oscillator.
    tx_lo_hz : float or None
        Frequency of the transmitter's oscillator. With None the transmitter stays off.
    rx_gain_db, tx_gain_db : float
        Gains; those of a transmitter are usually negative.
    rx_bandwidth_hz, tx_bandwidth_hz : float or None
        Bandwidths of the analog filters. With None they follow the sample rate, as far as the driver's limits allow.
    """

    sample_rate_hz: float = 2.5e6
    rx_lo_hz: float = 2.4e9
    tx_lo_hz: float | None = None
    rx_gain_db: float = 40.0
    tx_gain_db: float = -30.0
    rx_bandwidth_hz: float | None = None
    tx_bandwidth_hz: float | None = None

    def __post_init__(self) -> None:
        for name in ("sample_rate_hz", "rx_lo_hz", "rx_gain_db", "tx_gain_db"):
            real(name, getattr(self, name))
        for name in ("tx_lo_hz", "rx_bandwidth_hz", "tx_bandwidth_hz"):
            if getattr(self, name) is not None:
                real(name, getattr(self, name))

    def check(self, limits: RadioLimits) -> None:
        """Raise ValueError for the first setting that lies outside ``limits``, with its name and the range."""
        limits.sample_rate_hz.check("sample_rate_hz", self.sample_rate_hz)
        limits.rx_lo_hz.check("rx_lo_hz", self.rx_lo_hz)
        if self.tx_lo_hz is not None:
            limits.tx_lo_hz.check("tx_lo_hz", self.tx_lo_hz)
        limits.rx_gain_db(self.rx_lo_hz).check("rx_gain_db", self.rx_gain_db)
        limits.tx_gain_db.check("tx_gain_db", self.tx_gain_db)
        rx_bandwidth_hz, tx_bandwidth_hz = self.bandwidths_hz(limits)
        limits.rx_bandwidth_hz.check("rx_bandwidth_hz", rx_bandwidth_hz)
        limits.tx_bandwidth_hz.check("tx_bandwidth_hz", tx_bandwidth_hz)

    def bandwidths_hz(self, limits: RadioLimits) -> tuple[float, float]:
        """Return the bandwidths of the receiver and the transmitter: the given ones, or what suits the sample rate."""
        given, rate = (self.rx_bandwidth_hz, self.tx_bandwidth_hz), self.sample_rate_hz
        ranges = (limits.rx_bandwidth_hz, limits.tx_bandwidth_hz)
        rx, tx = (allowed.clamp(rate) if one is None else one for one, allowed in zip(given, ranges, strict=True))
        return rx, tx


@dataclass(frozen=True)
class StreamConfig:
    """How the two streams are cut and buffered.

    Parameters
    ----------
    block_samples : int
        Samples in a block.
    kernel_buffers : int
        Blocks that the device's driver buffers in each direction.
    primed_blocks : int
        Blocks of silence that are sent ahead, so that an answer to a received block has time to come.
    queued_blocks : int
        Blocks that wait in this program in each direction. Further blocks wait in the device until they are lost.
    blocks_per_poll : int
        Blocks from one look at the device's flags for lost samples to the next.
    """

    block_samples: int = 32_768
    kernel_buffers: int = 8
    primed_blocks: int = 4
    queued_blocks: int = 8
    blocks_per_poll: int = 1

    def __post_init__(self) -> None:
        integer("block_samples", self.block_samples, 16, 1 << 22)
        integer("kernel_buffers", self.kernel_buffers, 2, 64)
        integer("queued_blocks", self.queued_blocks, 1, 1024)
        integer("blocks_per_poll", self.blocks_per_poll, 1, 1024)
        primed = integer("primed_blocks", self.primed_blocks, 0)
        most = self.kernel_buffers
        require(primed <= most, "primed_blocks", primed, f"at most the {most} kernel buffers")


@dataclass(frozen=True, eq=False)
class Received:
    """One block of received samples. ``gaps`` names what broke in either stream since the block before it."""

    samples: Samples
    first_sample: int  # number of the first sample since the stream began; lost samples do not count
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True)
class RadioInfo:
    """What a radio says of itself. A driver may derive its own class from it with more fields."""

    uri: str
    model: str
    serial: str
    firmware: str
    temperature_celsius: float | None
    sample_rate_hz: float  # the rate that is set now
    lowest_rate_hz: float  # the lowest rate that the radio takes now; a filter in its chip may lower it
    highest_rate_hz: float

    @property
    def hindrances(self) -> list[str]:
        """Return, in words, what would keep a program from streaming if it does not set the radio up itself."""
        return []

    @property
    def switches(self) -> dict[str, str]:
        """Return what else is worth a column in a table of radios, by the column's title."""
        return {}


class Radio(ABC):
    """A radio with two streams. It is a context manager: leaving it ends the streams and releases the device.

    A driver's class takes ``(uri, config, *, timeout_seconds, found)``, checks ``config`` against ``limits`` before it
    touches a device, and raises RadioError if there is none.

    Attributes
    ----------
    limits : RadioLimits
        What the driver's radios can be set to.
    config : RadioConfig
        The settings as they were read back.
    found : object
        The state that ``close`` leaves the radio in, of a type that only the driver knows. A program that lost the
        radio and opens it again passes the ``found`` of the first time.
    """

    limits: RadioLimits
    config: RadioConfig
    found: Any = None

    @classmethod
    @abstractmethod
    def probe(cls, uri: str) -> RadioInfo:
        """Read what the radio at ``uri`` says of itself; set nothing. Raise RadioError if there is none."""

    @classmethod
    def scan(cls) -> dict[str, str]:
        """Return the uris of the radios that can be found without knowing them, and a description of each."""
        return {}

    @abstractmethod
    def describe(self) -> RadioInfo:
        """Return what this radio says of itself now."""

    @abstractmethod
    def configure(self, config: RadioConfig) -> RadioConfig:
        """Set the radio, read the settings back and return them. Raise RadioError if they differ."""

    @abstractmethod
    def start(self, stream: StreamConfig) -> None:
        """Begin to receive, and to transmit if ``config`` names a frequency to transmit at."""

    @abstractmethod
    def receive(self, timeout_seconds: float = 10.0) -> Received:
        """Return the next block. Raise RadioError if none comes in time."""

    @abstractmethod
    def transmit(self, samples: Samples, timeout_seconds: float = 10.0) -> None:
        """Queue one block behind the earlier ones; wait for room if there is none."""

    @abstractmethod
    def stop(self) -> None:
        """End both streams; they may be started again."""

    @abstractmethod
    def close(self) -> None:
        """End the streams and release the device. A second call does nothing."""

    def set_digital_loopback(self, on: bool) -> None:  # noqa: ARG002  (drivers that have a loopback use it)
        """Return the transmitted samples to the receiver inside the chip; nothing is radiated."""
        raise RadioError(f"{type(self).__name__} has no digital loopback")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
