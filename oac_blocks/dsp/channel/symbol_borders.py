# SPDX-License-Identifier: GPL-3.0-or-later
"""Correct the windows of a client whose symbol borders are in or near the server's FFT windows.

``symbol_channel`` continues each symbol without end. The true burst differs from that where a late path still shows the
symbol before, or an early client already the symbol after. The difference is a signal of its own: zero on one side of
the border, and the samples of the neighbour less those of the endless symbol on the other side. This module delays the
samples of this difference next to the border by a fraction of a sample (sinc interpolation, which includes the ringing
of the border) and sends them over the paths. So the cost is one inverse FFT and a few small products for each symbol.

What is omitted is the ringing of borders more than ``REACH_SAMPLES`` from the window, as in ``symbol_channel``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.frame import FrameLayout

ComplexArray = npt.NDArray[np.complex64]
Floats = npt.NDArray[np.float64]

REACH_SAMPLES = 16  # distance from a border up to which its ringing is computed
_FADE = np.cos(np.pi / 2 * (np.arange(16) + 0.5) / 16) ** 2  # the difference's far end, so that it does not ring
_MOST_DEPTH_SAMPLES = 96  # samples of a neighbour in the window; beyond, the burst goes sample by sample
_RUN_SYMBOLS = 16  # symbols that share a delay, plus its first derivative: a twentieth of a sample at 20 ppm
_SYMBOLS_AT_ONCE = 64  # symbols whose samples are in memory together


@dataclass(frozen=True)
class _WindowEnd:
    """One end of the windows: which samples of the difference reach which samples of the window."""

    length: int  # samples of the window that change
    kept: int  # samples of the difference that count
    offset_samples: float  # position of the first of these window samples from the border, for a path without delay
    first: int  # position of the first kept sample of the difference from the border
    at_samples: int  # position of the window's end in the symbol, for the rotation


@dataclass(frozen=True)
class SymbolBorders:
    """The corrections of one client's burst: its paths, and where its symbols arrive."""

    layout: FrameLayout
    early_samples: int
    taps: ComplexArray
    leads: Floats  # (symbols,) lead of the client's clock in the middle of each window, less the delay, in samples
    rate: float  # rate error of the clock
    phase_rad: Floats  # (symbols,) phase of the frequency offset at the beginning of each symbol
    cfo_rad: float  # frequency offset in rad/sample

    def can_correct(self) -> bool:
        """Return whether only direct neighbours, and not too much of them, are in the windows."""
        return max(self._depths()) <= min(_MOST_DEPTH_SAMPLES, self.layout.num.fft_size // 4)

    def add_to(self, samples: ComplexArray, payload: ComplexArray, sync: ComplexArray) -> None:
        """Correct samples (layout.samples,) of a client that sends this payload (payload_symbols, active).

        ``sync`` (active,) is the symbol in front of each group.
        """
        num, sides = self.layout.num, self._sides()
        differences = [np.zeros((self.layout.symbols, side.kept), np.complex64) for side in sides]
        tones = np.empty((self.layout.symbols, num.active_subcarriers), np.complex64)
        is_sync = self.layout.is_sync()
        tones[is_sync], tones[~is_sync] = sync, payload
        for start in range(0, len(tones), _SYMBOLS_AT_ONCE):
            stop = min(start + _SYMBOLS_AT_ONCE, len(tones))
            before, after = min(start, 1), min(len(tones) - stop, 1)
            bodies = ofdm.modulate(tones[start - before : stop + after], num)
            bodies = bodies.reshape(-1, num.symbol_samples)[:, num.cp_samples :]
            for side, difference in zip(sides, differences, strict=True):
                self._differ(side, bodies, before, difference[start:stop])
        windows = samples.reshape(self.layout.symbols, num.symbol_samples)
        for side, difference in zip(sides, differences, strict=True):
            first = side.at_samples if side.first < 0 else side.at_samples - side.length
            windows[:, first : first + side.length] += self._deliver(side, difference)

    def _depths(self) -> tuple[float, float]:
        """Return how many samples of the symbol before and of the symbol after are in the windows, at most."""
        late = len(self.taps) - 1 - float(self.leads.min())
        return late - (self.layout.num.cp_samples - self.early_samples), float(self.leads.max()) - self.early_samples

    def _sides(self) -> list[_WindowEnd]:
        num, sides = self.layout.num, []
        begin = num.cp_samples - self.early_samples
        for depth, is_before in zip(self._depths(), (True, False), strict=True):
            length = math.ceil(depth + REACH_SAMPLES)
            if length <= 0:
                continue
            kept = math.ceil(max(depth, 0.0)) + REACH_SAMPLES + len(_FADE)
            if is_before:
                sides.append(_WindowEnd(length, kept, begin, -kept, begin))
            else:
                sides.append(_WindowEnd(length, kept, -self.early_samples - length, 0, begin + num.fft_size))
        return sides

    def _differ(self, side: _WindowEnd, bodies: ComplexArray, before: int, difference: ComplexArray) -> None:
        """Compute neighbour less endless symbol next to the border; ``bodies`` has ``before`` rows in front."""
        num, rows = self.layout.num, len(difference)
        edge = num.fft_size - num.cp_samples  # the prefix begins with this sample of the body
        own = bodies[before : before + rows]
        if side.first < 0:
            difference[1 - before :] = bodies[: rows - 1 + before, num.fft_size - side.kept :]
            difference -= own[:, edge - side.kept : edge]
        else:
            following = bodies[before + 1 : before + 1 + rows, edge : edge + side.kept]
            difference[: len(following)] = following
            difference -= own[:, : side.kept]

    def _deliver(self, side: _WindowEnd, difference: ComplexArray) -> ComplexArray:
        """Return the differences as they arrive in the window samples of one side: (symbols, length)."""
        fade = np.ones(side.kept, np.float32)
        if side.first < 0:
            fade[: len(_FADE)] = _FADE[::-1]
        else:
            fade[-len(_FADE) :] = _FADE
        symbols = len(difference)
        runs = -(-symbols // _RUN_SYMBOLS)
        filled = np.zeros((runs * _RUN_SYMBOLS, side.kept), np.complex64)
        filled[:symbols] = difference * fade
        leads = np.append(self.leads, np.full(len(filled) - symbols, self.leads[-1])).reshape(runs, _RUN_SYMBOLS)
        since_middle = (
            side.at_samples - (self.layout.num.cp_samples - self.early_samples) - self.layout.num.fft_size / 2
        )
        middle = leads[:, _RUN_SYMBOLS // 2]
        delivered = np.zeros((runs, _RUN_SYMBOLS, side.length), np.complex64)
        away = (leads - middle[:, None]).astype(np.float32)[..., None]
        by_runs = filled.reshape(runs, _RUN_SYMBOLS, side.kept)
        for order, kernel in enumerate(self._kernels(side, middle + self.rate * since_middle)):
            windows = np.lib.stride_tricks.sliding_window_view(kernel, side.length, axis=-1)[:, ::-1]
            delivered += by_runs @ windows * away**order
        turns = np.exp(1j * (self.phase_rad + self.cfo_rad * side.at_samples)).astype(np.complex64)
        return delivered.reshape(-1, side.length)[:symbols] * turns[:, None]

    def _kernels(self, side: _WindowEnd, leads: Floats) -> tuple[ComplexArray, ComplexArray]:
        """Return the response of all paths to a sample of the difference, by their distance, and its derivative."""
        reach = len(self.taps) - 1
        distances = np.arange(-reach, side.length + side.kept - 1) - (side.first + side.kept - 1)
        x = distances + side.offset_samples + leads[:, None]
        values = np.sinc(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(np.abs(x) < 1e-6, 0.0, (np.cos(np.pi * x) - values) / x)
        both = []
        for table in (values, slopes):
            response = np.zeros((len(leads), side.length + side.kept - 1), np.complex64)
            for delay in np.flatnonzero(self.taps):
                response += self.taps[delay] * table[:, reach - delay : reach - delay + response.shape[1]]
            both.append(response)
        return both[0], both[1]
