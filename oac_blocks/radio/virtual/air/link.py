# SPDX-License-Identifier: GPL-3.0-or-later
"""The signal that one radio's receiver gets from another's transmitter, block by block.

Nothing is kept from one block to the next: the signal depends on the sender's samples, the two crystals and the time
alone, so the result does not depend on how many blocks are computed at a time. A block has ``HOP`` samples of the
receiver, and within a block the rates of both clocks are constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp.channel.crystal import Crystal
from oac_blocks.dsp.channel.resampling import BLOCK, GUARD, HOP, delay_blocks, series_length
from oac_blocks.dsp.channel.sample_history import SampleHistory
from oac_blocks.radio.virtual.air.timeline import Timeline

Samples = npt.NDArray[np.complex64]
Floats = npt.NDArray[np.float64]
_SHARE = ((np.arange(BLOCK, dtype=np.float32) - GUARD) / HOP).astype(
    np.float32
)  # share of a block that has passed at each sample
_FROM_MIDDLE = np.arange(HOP, dtype=np.float32) - HOP // 2
_MANY_TAPS = 12  # number of taps from which a transform is faster than sums
_WHOLE = 1e-6  # samples: a place closer than this to a whole sample is taken for it
_STILL = 1e-9  # samples: a block that is longer than HOP by less than this is not resampled


@dataclass(frozen=True)
class Track:
    """The receiver's block borders (blocks + 1) as places in the sender's samples, and the carrier's turns there."""

    places: Floats
    turns: Floats
    true_seconds: Floats  # at the receiver


@dataclass(frozen=True)
class Taps:
    """Impulse responses at the beginning and at the end of each block (blocks, taps), linear in between.

    The first ``ahead`` taps come before the one with delay 0.
    """

    begin: Samples
    end: Samples
    ahead: int = 0

    @classmethod
    def constant(cls, taps: Samples, blocks: int) -> Taps:
        rows = np.broadcast_to(taps, (blocks, len(taps)))
        return cls(rows, rows)


@dataclass(frozen=True)
class End:
    """One radio's end of a link. ``lo_ppm`` is the error of its oscillator in addition to that of its crystal."""

    crystal: Crystal
    timeline: Timeline
    lo_ppm: float = 0.0


@dataclass(frozen=True)
class Borders:
    """A receiver's block borders: times by its own crystal, true times, and the difference in full precision."""

    own_seconds: Floats
    true_seconds: Floats
    lead_seconds: Floats


def borders(first: int, blocks: int, receiver: End) -> Borders:
    """Return the borders of ``blocks`` blocks of the receiver, from its sample ``first`` on."""
    own = receiver.timeline.own(first + HOP * np.arange(blocks + 1))
    true = receiver.crystal.true_seconds(own)
    return Borders(own, true, receiver.crystal.lead(true))


def track(at: Borders, sender: End, receiver: End, delay_seconds: float, carrier_hz: float) -> Track:
    """Return where the receiver's block borders fall in the sender's samples, and how far the carrier has turned."""
    # The sender's own time when it sent what arrives now, less the receiver's own time now.
    behind = sender.crystal.lead(at.true_seconds - delay_seconds) - at.lead_seconds - delay_seconds
    lo_ppm = sender.lo_ppm - receiver.lo_ppm
    turns = carrier_hz * behind
    if lo_ppm:
        turns += 1e-6 * carrier_hz * lo_ppm * at.own_seconds
    return Track(sender.timeline.samples(at.own_seconds + behind), turns, at.true_seconds)


def add_to(out: Samples, way: Track, history: SampleHistory, taps: Taps, oldest: int) -> None:
    """Add what arrives on this track to ``out`` (whole blocks), through the impulse responses ``taps``.

    ``history`` must hold the sender's samples from ``oldest`` on, before which there is silence, up to ``GUARD`` + 2
    samples behind the last place, and as many more as the taps look ahead.
    """
    starts = way.places[:-1]
    growth = np.diff(way.places) - HOP  # samples by which the block is longer for the sender
    middles = starts + growth / 2
    whole = np.rint(middles)
    echoes = taps.begin.shape[1] - 1
    windows_at = whole.astype(np.int64) - GUARD - echoes + taps.ahead
    loud = (windows_at >= oldest) & history.any_loud(np.maximum(windows_at, oldest), BLOCK + echoes)
    if not loud.any():
        return
    still = (np.abs(growth) < _STILL) & (np.abs(starts - np.rint(starts)) < _WHOLE)
    rows = out.reshape(-1, HOP)
    terms = [0 if still[i] or not loud[i] else series_length(abs(float(growth[i])) / 2) for i in range(len(starts))]
    for count, alike in groupby(np.flatnonzero(loud).tolist(), terms.__getitem__):
        which = np.array(list(alike))
        segments = _echoed(history.windows(windows_at[which], BLOCK + echoes), taps.begin[which], taps.end[which])
        if count:
            drift = (growth[which] / HOP).astype(np.float32)[:, None] * _FROM_MIDDLE
            heard = delay_blocks(segments, (middles - whole)[which], drift)
        else:
            heard = segments[:, GUARD:-GUARD]
        rows[which] += _turned(heard, way.turns[which], np.diff(way.turns)[which])


def _echoed(windows: Samples, begin: Samples, end: Samples) -> Samples:
    still = np.array_equal(begin, end)
    if still and begin.shape[1] == 1:
        return windows * begin
    y = _convolved(windows, begin)
    return y if still else y + _convolved(windows, end - begin) * _SHARE


def _convolved(windows: Samples, taps: Samples) -> Samples:
    """Convolve each row with its own taps; return the part where all samples that the taps reach are known."""
    echoes = taps.shape[1] - 1
    delays = np.flatnonzero(np.any(taps, axis=0)).tolist()
    if len(delays) > _MANY_TAPS:
        length = scipy.fft.next_fast_len(windows.shape[1])  # the part that wraps around is left out
        y = scipy.fft.ifft(scipy.fft.fft(windows, length) * scipy.fft.fft(taps, length))
        return np.asarray(y[:, echoes : echoes + BLOCK], np.complex64)
    y = np.zeros((len(windows), BLOCK), np.complex64)
    for delay in delays:
        y += taps[:, delay, None] * windows[:, echoes - delay : echoes - delay + BLOCK]
    return y


def _turned(rows: Samples, starts: Floats, turns: Floats) -> Samples:
    if not np.any(starts) and not np.any(turns):
        return rows
    step = turns[:, None] / HOP
    # The table is the outer product of two short ones, as in dsp.phasor.
    coarse = np.exp(2j * np.pi * (starts[:, None] + step * np.arange(0, HOP, 64))).astype(np.complex64)
    fine = np.exp(2j * np.pi * step * np.arange(64)).astype(np.complex64)
    table = (coarse[:, :, None] * fine[:, None, :]).reshape(len(rows), -1)[:, :HOP]
    return rows * table
