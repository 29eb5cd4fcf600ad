# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which frequency the search for triggers follows: that of the last hit, or the whole bank."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oac_blocks.dsp.receive.detection import Detection

_RETUNE_RAD = 0.004  # rad/sample; a tracked frequency with a smaller error costs less than 0.1 dB
_SURE_SNR = 2.0  # linear SNR above which a hit cannot be a side peak
# Smallest ratio of a tracked hit's SNR to that of the hit before; below it the whole bank is searched again.
_LARGEST_DROP = 0.1
_WEAK_HITS = 4  # weak hits in a row after which the whole bank is searched again


@dataclass(frozen=True)
class Tracking:
    """Hold what a search remembers of its hits. A recording keeps it, so that a replay searches as the receiver did."""

    cfo_rad: float | None = None  # the one frequency to search, in rad/sample; None stands for the whole bank
    last_hit: int = 0  # sample of the last clear hit
    last_snr: float = 0.0  # linear SNR of the last clear hit
    locked_snr: float = 0.0  # linear SNR of the hit that set the frequency
    weak_hits: int = 0
    faint_hits: int = 0

    def after_hit(self, hit: Detection) -> Tracking:
        """Return the state after a clear hit."""
        doubtful, weak_hits = self._is_doubtful(hit.snr) if self.cfo_rad is not None else (False, self.weak_hits)
        faint, faint_hits = self._is_faint(hit.snr) if self.cfo_rad is None else (False, self.faint_hits)
        after = replace(self, last_hit=hit.sample, last_snr=hit.snr, weak_hits=weak_hits, faint_hits=faint_hits)
        if doubtful:
            return replace(after, cfo_rad=None)
        cfo = hit.cfo_rad_per_sample
        # Payload taken for a trigger would set a frequency at which no trigger is found any more.
        if faint or (self.cfo_rad is not None and abs(cfo - self.cfo_rad) <= _RETUNE_RAD):
            return after
        return replace(after, cfo_rad=cfo, locked_snr=hit.snr)

    def lost(self) -> Tracking:
        """Return the state after too long a time without a hit."""
        return replace(self, cfo_rad=None, locked_snr=0.0)

    def _is_doubtful(self, snr: float) -> tuple[bool, int]:
        """Return whether a tracked hit may be a side peak of a trigger whose frequency has jumped, and the weak hits.

        All frequencies are then searched once. A side peak explains at most a third of a trigger, at any level.
        """
        weak_hits = self.weak_hits + 1 if snr < _SURE_SNR else 0
        if weak_hits < _WEAK_HITS and snr > self.last_snr * _LARGEST_DROP:
            return False, weak_hits
        return True, 0

    def _is_faint(self, snr: float) -> tuple[bool, int]:
        """Return whether a hit is too weak, beside the one that set the last frequency, to set another; and the count.

        Chance correlations of payload are faint. A trigger that has become so much weaker is found all the same, and
        sets the frequency after a few hits.
        """
        faint_hits = self.faint_hits + 1 if snr <= self.locked_snr * _LARGEST_DROP else 0
        return 0 < faint_hits < _WEAK_HITS, faint_hits


@dataclass(frozen=True)
class SearchMark:
    """A sample of the stream from which the search can begin anew, and what it remembers of its hits there."""

    sample: int
    tracking: Tracking
