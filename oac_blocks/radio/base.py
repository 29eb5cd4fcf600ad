# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program may ask of a radio: settings that are read back, and two streams without gaps, or with known ones.

Samples are complex64, full scale is 1. Both streams are cut into blocks of one size. Nothing is transmitted until a
frequency to transmit at is named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.radio import limits

Samples = npt.NDArray[np.complex64]


class RadioError(RuntimeError):
    """The device is not there, is gone, or does not do as it was told."""


class RadioStopped(RadioError):  # noqa: N818  (it is no error to whoever stopped it)
    """The streams were not started, or were stopped while somebody waited for samples."""


@dataclass(frozen=True)
class RadioConfig:
    """Checked against what an AD9361 can do, before any device is touched.

    ``tx_lo_hz`` None: the transmitter stays off. Bandwidths None: that of the sample rate.
    """

    sample_rate_hz: float = 2.5e6
    rx_lo_hz: float = 2.4e9
    tx_lo_hz: float | None = None
    rx_gain_db: float = 40.0
    tx_gain_db: float = -30.0
    rx_bandwidth_hz: float | None = None
    tx_bandwidth_hz: float | None = None

    def __post_init__(self) -> None:
        limits.SAMPLE_RATE_HZ.check("sample_rate_hz", real("sample_rate_hz", self.sample_rate_hz))
        limits.RX_LO_HZ.check("rx_lo_hz", real("rx_lo_hz", self.rx_lo_hz))
        if self.tx_lo_hz is not None:
            limits.TX_LO_HZ.check("tx_lo_hz", real("tx_lo_hz", self.tx_lo_hz))
        limits.rx_gain_db(self.rx_lo_hz).check("rx_gain_db", real("rx_gain_db", self.rx_gain_db))
        limits.TX_GAIN_DB.check("tx_gain_db", real("tx_gain_db", self.tx_gain_db))
        limits.RX_BANDWIDTH_HZ.check("rx_bandwidth_hz", self.rx_bandwidth)
        limits.TX_BANDWIDTH_HZ.check("tx_bandwidth_hz", self.tx_bandwidth)

    @property
    def rx_bandwidth(self) -> float:
        given = self.rx_bandwidth_hz
        return limits.RX_BANDWIDTH_HZ.clamp(self.sample_rate_hz) if given is None else real("rx_bandwidth_hz", given)

    @property
    def tx_bandwidth(self) -> float:
        given = self.tx_bandwidth_hz
        return limits.TX_BANDWIDTH_HZ.clamp(self.sample_rate_hz) if given is None else real("tx_bandwidth_hz", given)


@dataclass(frozen=True)
class StreamConfig:
    """``primed_blocks`` of silence are sent ahead, so that an answer has time to come; by count, not by time.

    ``queued_blocks`` is how many more wait in either direction inside the program; what is beyond them waits in the
    device, and then is lost.
    """

    block_samples: int = 32_768
    kernel_buffers: int = 8
    primed_blocks: int = 4
    queued_blocks: int = 8
    blocks_per_poll: int = 1  # how often the device's flags are looked at

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
    """One block. ``gaps`` says what broke in either stream since the block before, as far as the device has told."""

    samples: Samples
    first_sample: int  # since the stream began, lost ones not counted
    gaps: tuple[str, ...] = ()


class Radio(ABC):
    """Use it as a context manager: leaving it ends the streams, and then lets go of the device."""

    config: RadioConfig

    @abstractmethod
    def configure(self, config: RadioConfig) -> RadioConfig:
        """Set, read back, compare: what the device has now. RadioError if that is something else."""

    @abstractmethod
    def start(self, stream: StreamConfig) -> None:
        """Begin to receive, and to transmit if there is a frequency for it."""

    @abstractmethod
    def receive(self, timeout_seconds: float = 10.0) -> Received:
        """The next block; RadioError if none comes."""

    @abstractmethod
    def transmit(self, samples: Samples, timeout_seconds: float = 10.0) -> None:
        """Queue one block behind those before; waits for room."""

    @abstractmethod
    def stop(self) -> None:
        """End both streams; they may be started again."""

    @abstractmethod
    def close(self) -> None:
        """End all, and let go of the device. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
