# SPDX-License-Identifier: GPL-3.0-or-later
"""Test whether a radio's streams lose samples: send numbered samples through its digital loopback and check them.

The two parts of a sample, 11 bits each, are digits of its number. Each sample therefore shows its own position, and a
gap shows its length. The numbers start again after 4,194,304 samples. If the transmitter runs out of samples, silence
returns, which carries no number: a stretch of silence of any length is one break.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer
from oac_blocks.radio.base import Radio, StreamConfig

_DIGIT = 2048
_HALF = _DIGIT // 2
_STEPS = 2048  # steps from 0 to full scale; a converter of 12 bits or more passes whole steps unchanged
PERIOD_SAMPLES = _DIGIT * _DIGIT
_ALIKE = 64  # consecutive numbers in a row that mark the beginning of the count


@dataclass(frozen=True)
class LoopbackResult:
    """Result of a loopback test."""

    sample_rate_hz: float
    samples: int  # samples that returned, from the first numbered one on
    breaks: int  # places where the count does not continue; a stretch of silence is one
    lost_samples: int  # samples that were sent and did not return
    silent_samples: int  # samples of silence that returned because the transmitter had none to send
    gaps: tuple[str, ...]  # gaps that the device reported
    delay_samples: int | None  # from the first sample sent to its return; None if it did not return

    @property
    def whole(self) -> bool:
        """Return whether all samples returned without a break and the device reported no gap."""
        return self.delay_samples is not None and self.breaks == 0 and not self.gaps


def counting_samples(first: int, count: int) -> npt.NDArray[np.complex64]:
    """Return the samples from number ``first`` on; a converter of 12 bits passes them unchanged."""
    numbers = np.arange(first, first + count) % PERIOD_SAMPLES
    low, high = numbers % _DIGIT - _HALF, numbers // _DIGIT - _HALF
    return ((low + 1j * high) / _STEPS).astype(np.complex64)


def numbers_of(samples: npt.NDArray[np.complex64]) -> npt.NDArray[np.int64]:
    """Return the numbers of received samples."""
    scaled = samples.astype(np.complex128) * _STEPS
    low, high = np.rint(scaled.real).astype(np.int64), np.rint(scaled.imag).astype(np.int64)
    return (low + _HALF) % _DIGIT + _DIGIT * ((high + _HALF) % _DIGIT)


@dataclass(frozen=True)
class Count:
    """The result of ``check_count``. If ``begin`` is None, no count was found, and all other fields are 0."""

    begin: int | None = None
    breaks: int = 0
    lost_samples: int = 0
    silent_samples: int = 0


def check_count(received: npt.NDArray[np.complex64]) -> Count:
    """Find where the count begins, where it breaks afterwards, and how many samples each break lost or added.

    A run is a stretch of consecutive numbers. Two runs are separated by one break: ``silent_samples`` counts the
    samples received there, and ``lost_samples`` counts the missing numbers. A count that goes back has lost nothing.
    """
    numbers = numbers_of(received)
    goes_on = np.diff(numbers) % PERIOD_SAMPLES == 1
    alike = np.convolve(goes_on, np.ones(_ALIKE), "valid") == _ALIKE if len(goes_on) >= _ALIKE else np.zeros(0, bool)
    if not alike.any():
        return Count()
    begin = int(np.argmax(alike))
    edges = np.diff(np.concatenate(([0], goes_on[begin:].astype(np.int8), [0])))
    # First and last sample of each run.
    first, last = begin + np.flatnonzero(edges == 1), begin + np.flatnonzero(edges == -1)
    missing = (numbers[first[1:]] - numbers[last[:-1]] - 1) % PERIOD_SAMPLES
    lost = int(missing[missing < PERIOD_SAMPLES // 2].sum())
    at_the_end = len(received) - 1 - int(last[-1])
    silent = int(np.sum(first[1:] - last[:-1] - 1)) + at_the_end
    return Count(begin, len(first) - 1 + (at_the_end > 0), lost, silent)


def run_loopback(radio: Radio, stream: StreamConfig, blocks: int) -> LoopbackResult:
    """Run the test on a radio whose digital loopback is on and whose streams are not started."""
    size = stream.block_samples
    radio.start(stream)
    received: list[npt.NDArray[np.complex64]] = []
    gaps: list[str] = []
    for block in range(integer("blocks", blocks, 1)):
        heard = radio.receive()
        received.append(heard.samples)
        gaps += heard.gaps
        radio.transmit(counting_samples(block * size, size))
    radio.stop()
    samples = np.concatenate(received)
    found = check_count(samples)
    begin = found.begin
    delay = None if begin is None else begin - int(numbers_of(samples[begin : begin + 1])[0])
    came_back = 0 if begin is None else len(samples) - begin
    lost = min(found.lost_samples, blocks * size)  # noise instead of a count may look like any number
    rate = radio.config.sample_rate_hz
    return LoopbackResult(rate, came_back, found.breaks, lost, found.silent_samples, tuple(gaps), delay)
