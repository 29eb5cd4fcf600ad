# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a radio's stream whole? Samples that count are sent, and looked at when they come back from its digital loopback.

A sample's two parts, 11 bits each, are digits of its number: so each sample says by itself where it belongs, and a gap
says how long it is. Numbers begin anew after 4,194,304 samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer
from oac_blocks.radio import limits
from oac_blocks.radio.base import Radio, StreamConfig

_DIGIT = 2048
_HALF = _DIGIT // 2
PERIOD_SAMPLES = _DIGIT * _DIGIT
_ALIKE = 64  # so many samples in a row that count are the beginning


@dataclass(frozen=True)
class LoopbackResult:
    sample_rate_hz: float
    samples: int  # that came back, from the first that counts on
    breaks: int  # places where the count does not go on
    lost_samples: int  # between them, modulo the period
    gaps: tuple[str, ...]  # as the device told
    delay_samples: int | None  # from the first sample sent to its return; None if it never did

    @property
    def whole(self) -> bool:
        return self.delay_samples is not None and self.breaks == 0 and not self.gaps


def counting_samples(first: int, count: int) -> npt.NDArray[np.complex64]:
    """Samples number ``first`` and on; what a converter of 12 bits passes to the bit."""
    numbers = np.arange(first, first + count) % PERIOD_SAMPLES
    low, high = numbers % _DIGIT - _HALF, numbers // _DIGIT - _HALF
    return ((low + 1j * high) / limits.RX_FULL_SCALE).astype(np.complex64)


def numbers_of(samples: npt.NDArray[np.complex64]) -> npt.NDArray[np.int64]:
    scaled = samples.astype(np.complex128) * limits.RX_FULL_SCALE
    low, high = np.rint(scaled.real).astype(np.int64), np.rint(scaled.imag).astype(np.int64)
    return (low + _HALF) % _DIGIT + _DIGIT * ((high + _HALF) % _DIGIT)


def check_count(received: npt.NDArray[np.complex64]) -> tuple[int | None, int, int]:
    """Where the count begins (None: nowhere), how often it breaks from there on, and how much is lost by that."""
    numbers = numbers_of(received)
    steps = np.diff(numbers) % PERIOD_SAMPLES
    good = np.convolve(steps == 1, np.ones(_ALIKE), "valid") == _ALIKE if len(steps) >= _ALIKE else np.zeros(0, bool)
    if not good.any():
        return None, 0, 0
    begin = int(np.argmax(good))
    broken = steps[begin:][steps[begin:] != 1]
    return begin, len(broken), int(np.sum((broken - 1) % PERIOD_SAMPLES))


def run_loopback(radio: Radio, stream: StreamConfig, blocks: int) -> LoopbackResult:
    """``radio`` is looped back already, and not started."""
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
    begin, breaks, lost = check_count(samples)
    delay = None if begin is None else begin - int(numbers_of(samples[begin : begin + 1])[0])
    count = 0 if begin is None else len(samples) - begin
    return LoopbackResult(radio.config.sample_rate_hz, count, breaks, lost, tuple(gaps), delay)
