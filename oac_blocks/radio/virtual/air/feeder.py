# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert one radio's transmission for another's receiver: through both filters, to its frequency and rate.

A transmitter that agrees with the receiver in frequency and rate, and whose filters are wide enough, needs none of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp.channel.sample_history import SampleHistory
from oac_blocks.dsp.phasor import phasors
from oac_blocks.radio.virtual.air.timeline import Timeline

Samples = npt.NDArray[np.complex64]
TAPS = 129
_HALF = TAPS // 2
_KAISER = 7.0  # shape of the window, for a stop band of 70 dB
_HALF_SINC = 24  # half length of the sinc, in samples of the slower side
_PHASES = 1024  # phases of the windowed sinc between two samples of the slower side
_WEIGHTS_AT_ONCE = 1 << 17  # taps, over all samples that are interpolated together
_PIECE = 8192  # samples of the faster side that are converted at a time
_LEAST_PIECE = 512
_REACH = 1 << 11  # zeros before the first sample: more than filters and echoes look back
_LEAST_SHARE = 1e-3  # share of the band below which nothing gets through


@dataclass(frozen=True)
class Conversion:
    """Rates and filters of both sides. ``shift_hz`` is the transmitter's oscillator frequency less the receiver's."""

    tx_rate_hz: float
    rx_rate_hz: float
    shift_hz: float
    tx_bandwidth_hz: float
    rx_bandwidth_hz: float

    @property
    def band_hz(self) -> tuple[float, float]:
        """Return the band that gets through, as frequencies of the transmitted samples."""
        receiver = min(self.rx_bandwidth_hz, self.rx_rate_hz) / 2
        sender = min(self.tx_bandwidth_hz, self.tx_rate_hz) / 2
        return max(-sender, -self.shift_hz - receiver), min(sender, -self.shift_hz + receiver)

    @property
    def silent(self) -> bool:
        low, high = self.band_hz
        return high - low < _LEAST_SHARE * self.tx_rate_hz

    @property
    def filters(self) -> bool:
        low, high = self.band_hz
        return low > -self.tx_rate_hz / 2 or high < self.tx_rate_hz / 2

    @property
    def trivial(self) -> bool:
        return self.tx_rate_hz == self.rx_rate_hz and self.shift_hz == 0 and not self.filters

    def taps(self) -> Samples:
        """Return the taps of a band-pass whose only delay is its own half length."""
        low, high = self.band_hz
        rate = self.tx_rate_hz
        taps = low_pass((high - low) / rate)
        turn = 2 * np.pi * (low + high) / 2 / rate
        return np.asarray(taps * np.exp(1j * turn * (np.arange(TAPS) - _HALF)), np.complex64)


@lru_cache(maxsize=64)
def low_pass(share: float) -> Samples:
    """Return the taps of a filter that passes this share of the band; its only delay is its own half length."""
    taps = np.zeros(TAPS)
    if share >= 0.998:
        taps[_HALF] = 1.0
    else:
        taps = share * np.sinc(share * (np.arange(TAPS) - _HALF)) * np.kaiser(TAPS, _KAISER)
        taps /= taps.sum()
    return taps.astype(np.complex64)


class Feeder:
    """Follow a transmitter's history and keep one at the receiver's rate."""

    def __init__(self, conversion: Conversion, source: SampleHistory, timeline: Timeline, start: int) -> None:
        """Begin at the source's sample ``start``; ``timeline`` is that of the source's samples."""
        self.conversion = conversion
        self._source = source
        self._read = start  # the source's next sample to be filtered
        self._taps = conversion.taps() if conversion.filters else None
        self._turned = start
        self._ratio = conversion.tx_rate_hz / conversion.rx_rate_hz
        self._half = math.ceil(_HALF_SINC * max(1.0, self._ratio))
        # Shifted and filtered samples at the source's rate that are still needed for interpolation, after silence.
        self._middle = np.zeros(self._half, np.complex64)
        self._middle_first = start - self._half
        self._start = start
        self._out = 0
        self.history = SampleHistory(_REACH)
        self.oldest = -_REACH
        self._pushed = 0
        self.timeline = Timeline(conversion.rx_rate_hz, 0, float(timeline.own(np.array(float(start)))))

    @staticmethod
    def lookahead(conversion: Conversion) -> int:
        """Return how many of the source's later samples the filters need."""
        ratio = conversion.tx_rate_hz / conversion.rx_rate_hz
        return _HALF + math.ceil(_HALF_SINC * max(1.0, ratio)) + 2

    @property
    def needs_from(self) -> int:
        """Return the oldest of the source's samples that is still to be filtered."""
        return self._read - _HALF

    def forget(self, before: int) -> None:
        self.oldest = max(self.oldest, min(before, self._pushed))
        self.history.forget(self.oldest)

    def advance(self, end: int) -> None:
        """Convert the source up to this sample."""
        reach = _HALF if self._taps is not None else 0
        most = max(_LEAST_PIECE, math.ceil(_PIECE * min(1.0, self._ratio)))
        while self._read < end - reach:
            count = min(most, end - reach - self._read)
            piece = self._source.windows(np.array([self._read - reach]), count + 2 * reach)[0]
            if not piece.any():
                piece = np.zeros(count, np.complex64)
            else:
                if self._taps is not None:
                    piece = filtered(piece, self._taps)
                if self.conversion.shift_hz:
                    turn = self.conversion.shift_hz / self.conversion.tx_rate_hz
                    start = (turn * (self._read - self._start)) % 1.0
                    piece = piece * phasors(2 * np.pi * turn, count) * np.complex64(np.exp(2j * np.pi * start))
            self._read += count
            self._convert(piece)

    def _push(self, samples: Samples) -> None:
        self.history.push(samples)
        self._pushed += len(samples)

    def _convert(self, piece: Samples) -> None:
        if self._ratio == 1:
            self._push(piece)
            return
        self._middle = np.concatenate((self._middle, piece))
        last = self._middle_first + len(self._middle) - 1 - self._half  # the last place that can be computed
        count = max(0, math.floor((last - self._start) / self._ratio) + 1 - self._out)
        if count and not self._middle.any():
            self._push(np.zeros(count, np.complex64))
        elif count:
            at = self._start + (self._out + np.arange(count)) * self._ratio - self._middle_first
            self._push(interpolate(self._middle, at, self._half, min(1.0, 1 / self._ratio)))
        self._out += count
        keep_from = math.floor(self._start + self._out * self._ratio) - self._half - 1
        drop = max(0, keep_from - self._middle_first)
        self._middle, self._middle_first = self._middle[drop:], self._middle_first + drop


def filtered(x: Samples, taps: Samples) -> Samples:
    """Return the part of the convolution for which all needed samples of x are known."""
    length = scipy.fft.next_fast_len(len(x))  # the part that wraps around is left out
    y = scipy.fft.ifft(scipy.fft.fft(x, length) * scipy.fft.fft(taps, length))
    return np.asarray(y[len(taps) - 1 : len(x)], np.complex64)


def interpolate(x: Samples, at: npt.NDArray[np.float64], half: int, cutoff: float) -> Samples:
    """Return x between its samples, by a windowed sinc of 2 ``half`` taps that passes ``cutoff`` of the band."""
    taps, kernel = _sinc(half, cutoff)
    y = np.zeros(len(at), np.complex64)
    phases, some = len(kernel) - 1, max(1, _WEIGHTS_AT_ONCE // len(taps))
    for begin in range(0, len(at), some):
        part = at[begin : begin + some]
        whole = np.floor(part).astype(np.int64)
        phase = (part - whole) * phases
        row = np.minimum(phase.astype(np.int64), phases - 1)
        share = (phase - row).astype(np.float32)[:, None]
        weight = kernel[row] * (1 - share) + kernel[row + 1] * share
        index = np.clip(whole[:, None] + taps, 0, len(x) - 1)
        y[begin : begin + some] = np.einsum("nt,nt->n", weight, x[index])
    return y


@lru_cache(maxsize=8)
def _sinc(half: int, cutoff: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the places of the taps, and their weights for each of the phases."""
    taps = np.arange(1 - half, half + 1)
    phases = math.ceil(_PHASES * cutoff)  # a wider sinc is as smooth with fewer phases
    table = np.arange(phases + 1)[:, None] / phases - taps
    window = np.i0(_KAISER * np.sqrt(np.clip(1 - (table / half) ** 2, 0, None))) / np.i0(_KAISER)
    return taps, (cutoff * np.sinc(cutoff * table) * window).astype(np.float32)
