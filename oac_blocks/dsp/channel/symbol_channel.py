# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute many clients' bursts in the server's FFT windows: ``channel.transmit``, symbol by symbol.

Within the window, a symbol that covers it whole is a sum of endless tones. A delay rotates each tone, multipath weighs
it, and a short Taylor series about the window's middle models the drift of clock and oscillator within one symbol. The
terms of the series add up over the clients before the inverse FFT, so a client costs a few products on its subcarriers
and no FFT of its own.

The model omits the ringing of symbol borders through a fractional delay. For a client in time with an offset of half a
sample, this ringing is -63 dB on the active subcarriers and -56 dB beside them; for whole samples it is zero. A client
that is so early or late that a symbol border is near a window, or that drifts so much that the series is long, must go
through ``channel.transmit``. :meth:`SymbolChannel.seen` tells which clients those are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.multiple_access import Link, positions_at
from oac_blocks.dsp.channel.symbol_borders import SymbolBorders
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]

# Least distance in samples between a symbol border and the window, below which the ringing is visible.
JOINT_MARGIN_SAMPLES = 16.0
_RINGING = 1.5e-6  # power of the ringing, measured with the default numerology, mean over all fractions of a sample
_HIGHEST_FREQUENCY = 0.4  # highest frequency of the band in cycles per sample; the ringing is at 0.5
_PIECE_SYMBOLS = 64  # symbols in a piece: its arrays stay in the cache, and a clock keeps its rate for this long
_SERIES_ERROR = 1e-4  # relative error of the series, -80 dB
LONGEST_SERIES = 6
_MOST_DRIFT_AT_BORDERS_RAD = 0.05  # largest drift within half a window for which the delay at a border is constant
_WANDERING_RAD = 1e-4  # largest phase, in rad, by which a walking clock may rotate a tone within half a piece


@dataclass(frozen=True)
class Seen:
    """The factor of a path on each subcarrier in the middle of each symbol's window, and its drift."""

    # (pieces + groups, active): factors in the middle of each piece of payload and in each sync symbol.
    turns: ComplexArray
    per_symbol: ComplexArray  # (piece, active): rotations from a piece's middle to its other symbols
    # (LONGEST_SERIES, active): a tone's rotation per sample, divided by the order of the series term.
    drift: ComplexArray
    borders: SymbolBorders | None = None  # what else is in the windows of a client whose symbols do not cover them


class SymbolChannel:
    """The channel of one burst; it arrives at ``nominal_samples``, and windows begin ``early_samples`` early."""

    def __init__(self, layout: FrameLayout, nominal_samples: int, early_samples: int, *, borders: bool = False) -> None:
        num = layout.num
        self.borders = borders  # clients with borders in or near the windows count as seen, with a correction
        self.layout, self.nominal_samples = layout, integer("nominal_samples", nominal_samples, 0)
        self.early_samples = integer("early_samples", early_samples, 0, num.cp_samples)
        # Position of the window's middle in its symbol.
        self.middle_samples = num.cp_samples - self.early_samples + num.fft_size // 2
        self.pieces = _pieces(layout)
        self.sync_symbols = layout.sync_symbols()
        middles = [frame.start + (frame.stop - frame.start) // 2 for frame, _ in self.pieces]
        self._symbols = np.concatenate((middles, self.sync_symbols, (0, layout.symbols - 1))).astype(np.int64)
        self._frequencies_rad = 2 * np.pi * num.subcarrier_frequencies()

    def seen(
        self,
        links: Sequence[Link],
        taps: Sequence[ComplexArray],
        rates_ppm: npt.NDArray[np.float64],
        undone_ppm: npt.NDArray[np.float64] | None = None,
    ) -> list[Seen | None]:
        """Return the factors of each path for impulse responses (taps,) and clock rates (N, steps).

        ``undone_ppm`` (N,) are clock rates whose drift since the beginning of the burst the clients' payloads undo. The
        entry is ``None`` for a client whose symbols do not cover the windows.
        """
        num = self.layout.num
        low, high = 1e-6 * rates_ppm.min(axis=1), 1e-6 * rates_ppm.max(axis=1)
        rate = (low + high) / 2
        cfo_rad = 2 * np.pi / num.sample_rate_hz * np.array([link.cfo_hz for link in links])
        arrival = np.array([link.arrival_samples() for link in links])
        symbol_starts = num.symbol_samples * self._symbols + self.middle_samples
        lead = positions_at(arrival, rates_ppm, self.nominal_samples + symbol_starts) - symbol_starts
        wandering_rad = (high - low) * np.pi * num.symbol_samples * _PIECE_SYMBOLS / 4
        steady = wandering_rad <= _WANDERING_RAD
        whole = self._shows(lead[:, -2:], np.array([len(own) for own in taps]))

        turning = cfo_rad[:, None] * (self.nominal_samples + symbol_starts[:-2])
        turns = np.exp(1j * (lead[:, :-2, None] * self._frequencies_rad + turning[..., None])).astype(np.complex64)
        drift = 1j * (self._frequencies_rad * rate[:, None] + cfo_rad[:, None])
        left = drift
        if undone_ppm is not None:
            undone = -1j * self._frequencies_rad * (1e-6 * undone_ppm[:, None])
            left = drift + undone
            pieces = len(self.pieces)
            turns[:, :pieces] *= np.exp(undone[:, None] * symbol_starts[:pieces, None]).astype(np.complex64)
        per_symbol = _powers(np.exp(num.symbol_samples * left))
        per_order = (drift[:, None] / np.maximum(1, np.arange(LONGEST_SERIES))[:, None]).astype(np.complex64)
        for own, response, client_rate in zip(turns, taps, rate, strict=True):
            own *= self._response(response, float(client_rate))
        seen: list[Seen | None] = []
        for i, link in enumerate(links):
            largest_rad = self.largest_drift_rad(link)
            borders = None
            if not whole[i] and self.borders and largest_rad <= _MOST_DRIFT_AT_BORDERS_RAD:
                borders = self._borders(link, taps[i], rates_ppm[i], float(rate[i]), float(cfo_rad[i]))
            can_add = steady[i] and series_length(largest_rad) <= LONGEST_SERIES and (whole[i] or borders is not None)
            seen.append(Seen(turns[i], per_symbol[i], per_order[i], borders) if can_add else None)
        return seen

    def _borders(
        self, link: Link, taps: ComplexArray, rates_ppm: npt.NDArray[np.float64], rate: float, cfo_rad: float
    ) -> SymbolBorders | None:
        """Return the corrections at the borders; ``None`` if too much of other symbols is in the windows."""
        starts = self.layout.num.symbol_samples * np.arange(self.layout.symbols)
        at = starts + self.middle_samples
        arrival = np.array([link.arrival_samples()])
        leads = positions_at(arrival, rates_ppm[None], self.nominal_samples + at)[0] - at
        phase_rad = cfo_rad * (self.nominal_samples + starts)
        borders = SymbolBorders(self.layout, self.early_samples, taps, leads, rate, phase_rad, cfo_rad)
        return borders if borders.can_correct() else None

    def _shows(self, ends: npt.NDArray[np.float64], taps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether all borders are outside the windows; ``ends`` (N, 2): leads in the first and last one."""
        num = self.layout.num
        behind = self.early_samples - ends.max(axis=1)
        before = num.cp_samples - self.early_samples - (taps - 1) + ends.min(axis=1)
        # Delays of whole samples cause no ringing.
        margin = np.where(np.all(ends == np.rint(ends), axis=1), 0.0, JOINT_MARGIN_SAMPLES)
        shows: npt.NDArray[np.bool_] = np.minimum(behind, before) >= margin
        return shows

    def largest_drift_rad(self, link: Link) -> float:
        """Return the outermost tone's rotation by clock and oscillator from the window's middle to its end."""
        num = self.layout.num
        turn = np.pi * 1e-6 * abs(link.clock_ppm) + 2 * np.pi * abs(link.cfo_hz) / num.sample_rate_hz
        return num.fft_size / 2 * turn

    def _response(self, taps: ComplexArray, rate: float) -> npt.NDArray[np.complex64] | np.complex64:
        if len(taps) == 1:
            return taps[0]
        echoes = np.flatnonzero(taps)
        # A path with a delay of d samples shows what the client sent d (1 + rate) of its own samples ago.
        ramps = np.exp(-1j * (1 + rate) * self._frequencies_rad[:, None] * echoes)
        response: npt.NDArray[np.complex64] = (ramps @ taps[echoes].astype(np.complex128)).astype(np.complex64)
        return response


class SymbolSum:
    """The sum of the clients' subcarriers, added one client at a time; ``links`` are all links that may be added."""

    def __init__(self, channel: SymbolChannel, links: Sequence[Link]) -> None:
        layout = channel.layout
        largest = max(map(channel.largest_drift_rad, links), default=0.0)
        terms = min(series_length(largest), LONGEST_SERIES)
        self._channel, self._is_empty = channel, True
        self._at_borders: ComplexArray | None = None
        self._sums = np.zeros((terms, layout.symbols, layout.num.active_subcarriers), np.complex64)

    def add(self, payload: ComplexArray, sync: ComplexArray, seen: Seen, precoding: ComplexArray | None = None) -> None:
        """Add a client's payload (payload_symbols, active), with its sync symbol (active,) in front of each group.

        ``precoding`` (active,) are factors by which the client multiplies the subcarriers of its payload.
        """
        self._is_empty = False
        of_pieces = seen.turns[: len(self._channel.pieces)]
        if precoding is not None:
            of_pieces = of_pieces * precoding
        for (frame_rows, payload_rows), turns in zip(self._channel.pieces, of_pieces, strict=True):
            rows = payload[payload_rows]
            first = _PIECE_SYMBOLS // 2 - len(rows) // 2
            turned = seen.per_symbol[first : first + len(rows)] * turns
            turned *= rows
            self._add(frame_rows, turned, seen)
        self._add(self._channel.sync_symbols, seen.turns[len(self._channel.pieces) :] * sync, seen)

    def add_borders(self, sent: ComplexArray, sync: ComplexArray, borders: SymbolBorders) -> None:
        """Add the corrections of a client that sends this payload, precoding included."""
        if self._at_borders is None:
            self._at_borders = np.zeros(self._channel.layout.samples, np.complex64)
        borders.add_to(self._at_borders, sent, sync)

    def _add(self, rows: slice | npt.NDArray[np.int64], turned: ComplexArray, seen: Seen) -> None:
        self._sums[0, rows] += turned
        for order in range(1, len(self._sums)):
            turned *= seen.drift[order]
            self._sums[order, rows] += turned

    def add_to(self, samples: ComplexArray) -> None:
        """Add the sum to the samples that the server receives from ``nominal_samples`` on, (layout.samples,)."""
        if self._is_empty:
            return
        num = self._channel.layout.num
        since = (np.arange(num.symbol_samples) - self._channel.middle_samples).astype(np.float32)
        terms = [ofdm.modulate(one, num).reshape(-1, num.symbol_samples) for one in self._sums]
        total = terms.pop()
        for term in reversed(terms):
            total *= since
            total += term
        samples += total.reshape(-1)
        if self._at_borders is not None:
            samples += self._at_borders


def mean_ringing(num: Numerology) -> float:
    """Return the power of the omitted ringing on a subcarrier beside the band, for one client in time.

    Within the band it is a fifth of that. A symbol border is a step of as many tones of amplitude 1/sqrt(n) as are
    active, and each of the n subcarriers gets 1/n of its power.
    """
    if (num.active_subcarriers + num.dc_nulls) / 2 > _HIGHEST_FREQUENCY * num.fft_size:
        return math.inf
    return _RINGING * (num.active_subcarriers / 192) * (256 / num.fft_size) ** 2


def series_length(argument_rad: float) -> int:
    """Return how many terms of the Taylor series of e^{jx} keep the error within the limit; many if x is large."""
    terms = 1
    while terms <= LONGEST_SERIES and argument_rad**terms / math.factorial(terms) > _SERIES_ERROR:
        terms += 1
    return terms


def _pieces(layout: FrameLayout) -> list[tuple[slice, slice]]:
    """Return runs of payload symbols without a sync symbol in between, as slices of the frame and of the payload."""
    pieces, start = [], 0
    for group, size in enumerate(layout.group_symbols().tolist()):
        for first in range(0, size, _PIECE_SYMBOLS):
            stop = min(size, first + _PIECE_SYMBOLS)
            payload = slice(start + first, start + stop)
            pieces.append((slice(payload.start + group + 1, payload.stop + group + 1), payload))
        start += size
    return pieces


def _powers(z: npt.NDArray[np.complex128]) -> ComplexArray:
    """Return z^q for q = -piece/2 .. piece/2 - 1 by repeated doubling: (N, active) to (N, piece, active)."""
    table = np.empty((len(z), _PIECE_SYMBOLS, z.shape[1]), np.complex64)
    table[:, 0] = z ** -(_PIECE_SYMBOLS // 2)
    rows, power = 1, z
    while rows < _PIECE_SYMBOLS:
        np.multiply(table[:, :rows], power[:, None].astype(np.complex64), out=table[:, rows : 2 * rows])
        rows, power = 2 * rows, power * power
    return table
