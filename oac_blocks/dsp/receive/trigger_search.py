# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the triggers of a stream that arrives in chunks of any size; the result does not depend on the chunks.

The search has three stages. Each stage examines fewer samples and is more selective than the one before:

1. The *gate* examines all samples: the mean normalised correlation of the four segments, for each frequency of a bank.
   It adds magnitudes, not amplitudes, and therefore passes far more noise than is acceptable in the end.
2. The *whole waveform* is correlated coherently over 280 samples where the gate opened, on a fine grid of frequencies.
   Its threshold sets the false-alarm rate.
3. The *fit* estimates time and frequency of the remaining candidates to the Cramer-Rao bound (``arrival``).

The stream is processed in spans of a fixed length, counted from its first sample. All decisions, including the switch
from the bank to one tracked frequency, therefore depend on the samples alone and not on the chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.receive.detection import CFO_BANK_RAD, DEFAULT_FALSE_ALARM, LEAST_FIT_SNR, Detection, is_cut
from oac_blocks.dsp.receive.tracking import SearchMark, Tracking
from oac_blocks.dsp.receive.trigger_bank import GATE_SPAN, ROW_SAMPLES, SHIFTS_SAMPLES, Bank
from oac_blocks.dsp.waveform.trigger import EDGE_SAMPLES, SEGMENT_SAMPLES, SEGMENTS, trigger

DEFAULT_MIN_SNR_DB = 10 * math.log10(LEAST_FIT_SNR)
# Samples within which only the strongest candidate counts: side peaks of the trigger are 64 samples apart.
REFRACTORY_SAMPLES = SEGMENTS * SEGMENT_SAMPLES
_LOOKAHEAD = 4 * REFRACTORY_SAMPLES  # samples to wait before a choice among candidates that are close to each other
_TRIGGER_SAMPLES = len(trigger())
_FIT_MARGIN = 64
_HISTORY = _LOOKAHEAD + _TRIGGER_SAMPLES + 2 * _FIT_MARGIN  # samples before the span that a decision may still need


@dataclass(frozen=True)
class _Candidates:
    """Samples at which a first segment may begin, in order of time, counted from the stream's first sample."""

    position: npt.NDArray[np.int64]
    strength: npt.NDArray[np.float32]  # correlation of the whole waveform, 0 to 1
    metric: npt.NDArray[np.float32]  # metric of the gate, 0 to 1
    shift_samples: npt.NDArray[np.float64]
    cfo_rad: npt.NDArray[np.float64]

    def __getitem__(self, some: npt.NDArray[np.bool_]) -> _Candidates:
        return _Candidates(*(column[some] for column in self._columns()))

    def and_then(self, other: _Candidates) -> _Candidates:
        return _Candidates(*map(np.concatenate, zip(self._columns(), other._columns(), strict=True)))

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.position, self.strength, self.metric, self.shift_samples, self.cfo_rad

    def first_survivor(self) -> int:
        """Return the index of the earliest peak that remains after stronger peaks suppressed their surroundings."""
        alive = np.arange(len(self.position))
        earliest = len(alive)
        while len(alive):
            best = int(alive[self.strength[alive].argmax()])
            earliest = min(earliest, best)
            alive = alive[np.abs(self.position[alive] - self.position[best]) >= REFRACTORY_SAMPLES]
        return earliest


_NO_CANDIDATES = _Candidates(np.empty(0, np.int64), *np.empty((2, 0), np.float32), *np.empty((2, 0)))


class TriggerSearch:
    """Find the triggers of a stream; ``push`` takes its next samples and returns the triggers that they decide.

    A trigger with the first sample n is returned at the latest by the push that brings sample n + ``latency_samples``.
    Times count from the first sample pushed. A trigger that began before it is not reported.

    Parameters
    ----------
    false_alarm_per_sample : float
        Probability of a false alarm in white noise, before the check of the fit's SNR.
    min_snr_db : float
        Least SNR of the fit. Payload is not white and causes more chance correlations than noise. These stay below the
        default, while a trigger at -7 dB exceeds it.
    tracking : bool
        Whether to search only the frequency of the last hit, which is three times as fast.
    lost_after_samples : int
        Samples without a hit after which tracking ends.
    cfo_bank_rad : tuple of float
        Frequencies to search, at most 0.05 rad/sample apart.
    span_rows : int
        FFTs in a span. Fewer give less latency, more give more speed.
    """

    def __init__(
        self,
        false_alarm_per_sample: float = DEFAULT_FALSE_ALARM,
        min_snr_db: float = DEFAULT_MIN_SNR_DB,
        *,
        tracking: bool = True,
        lost_after_samples: int = 20_000_000,
        cfo_bank_rad: tuple[float, ...] = CFO_BANK_RAD,
        span_rows: int = 16,
    ) -> None:
        from oac_blocks.dsp.receive.trigger_gate import TriggerGate  # here, because it loads the compiler

        require(len(cfo_bank_rad) > 0, "cfo_bank_rad", cfo_bank_rad, "at least one frequency")
        bank_rad = tuple(real("cfo_bank_rad", cfo, -math.pi, math.pi) for cfo in cfo_bank_rad)
        self._rows = integer("span_rows", span_rows, 1, 1024)
        self._span = self._rows * ROW_SAMPLES - GATE_SPAN
        self._correlated = self._span + GATE_SPAN + SEGMENT_SAMPLES - 1  # samples that the gates of a span need
        self._gate = TriggerGate(self._rows)
        self._buffer = np.empty(_HISTORY + self._correlated + EDGE_SAMPLES, np.complex64)
        # The fine grids overlap, because noise may make the gate prefer the farther of two neighbouring frequencies.
        self._bank = self._search_bank = Bank.of(bank_rad, fine_steps=3)
        self.set_false_alarm(false_alarm_per_sample)
        self.set_min_snr_db(min_snr_db)
        self.set_tracking(tracking)
        self.set_lost_after_samples(lost_after_samples)
        self.reset()

    @property
    def bad_samples(self) -> int:
        """Return how many samples were NaN, infinite or very large, and counted as zeros."""
        return self._gate.bad_samples

    @property
    def latency_samples(self) -> int:
        """Return the latest delay from a trigger's first sample to its report, in samples."""
        return self._span + _LOOKAHEAD + GATE_SPAN + SEGMENT_SAMPLES + 2 * EDGE_SAMPLES

    @property
    def tracked_cfo_rad(self) -> float | None:
        """Return the one frequency that is searched, in rad/sample; None while the whole bank is searched."""
        return self._track.cfo_rad

    @property
    def span_samples(self) -> int:
        """Return the length of a span in samples."""
        return self._span

    def set_false_alarm(self, per_sample: float) -> None:
        """Set the probability of a false alarm per sample of white noise."""
        self._false_alarm = real("false_alarm_per_sample", per_sample, 1e-15, 0.1)

    def set_min_snr_db(self, min_snr_db: float) -> None:
        """Set the least SNR per sample of a trigger in dB."""
        self._min_snr_db = real("min_snr_db", min_snr_db, -100.0, 100.0)
        self._min_snr = 10 ** (self._min_snr_db / 10)

    def set_tracking(self, tracking: bool) -> None:
        """Set whether the search follows the frequency of the last trigger."""
        self._tracking = bool(tracking)

    def set_lost_after_samples(self, samples: int) -> None:
        """Set after how many samples without a trigger all frequencies are searched again."""
        self._lost_after = integer("lost_after_samples", samples, 1)

    def settings(self) -> dict[str, float | int | bool]:
        """Return the settings by the names of the constructor, without the frequencies to search."""
        return {
            "false_alarm_per_sample": self._false_alarm,
            "min_snr_db": self._min_snr_db,
            "tracking": self._tracking,
            "lost_after_samples": self._lost_after,
            "span_rows": self._rows,
        }

    def reset(self) -> None:
        """Forget the stream: the next sample has the number 0."""
        self.resume(SearchMark(0, Tracking()))

    def mark(self) -> SearchMark:
        """Return where the next span begins.

        A search that resumes there finds the triggers of all later spans but the first as this search does.
        """
        return SearchMark(self._next + _TRIGGER_SAMPLES, self._track)

    def resume(self, mark: SearchMark) -> None:
        """Continue at this mark of a stream; its sample is the next one to be pushed."""
        self._follow(mark.tracking)
        self._begin(integer("sample", mark.sample, 0))

    def skip_to(self, sample: int) -> None:
        """Continue at this sample of the stream, which is the next one to be pushed.

        Samples that are not decided yet are given up. The search begins as at the start of a stream: a trigger that
        began before this sample is not reported. The tracked frequency stays.
        """
        self._begin(integer("sample", sample, 0))

    @property
    def wanted_samples(self) -> int:
        """Return how many samples complete the next span; chunks of this size give each trigger at once."""
        return self._next + self._correlated + EDGE_SAMPLES - self._origin - self._filled

    def _begin(self, first: int) -> None:
        """Search from this sample of the stream on."""
        # The search starts before this sample, in silence, so that a cut trigger must exceed its own side peaks.
        self._filled = _HISTORY + _TRIGGER_SAMPLES  # samples in the buffer
        self._buffer[: self._filled] = 0
        self._first = first
        self._origin = first - self._filled  # stream index of the buffer's first sample
        self._next = first - _TRIGGER_SAMPLES  # first sample whose gate is not known yet
        self._pending = _NO_CANDIDATES

    def push(self, samples: npt.NDArray[np.complex64]) -> list[Detection]:
        """Return the triggers that these samples complete, in order of time."""
        samples = np.asarray(samples)
        require(samples.ndim == 1, "samples", f"shape {samples.shape}", "one-dimensional")
        require(samples.dtype == np.complex64, "samples", samples.dtype, "complex64")
        found: list[Detection] = []
        while len(samples):
            some = samples[: self.wanted_samples]
            self._buffer[self._filled : self._filled + len(some)] = some
            self._filled += len(some)
            samples = samples[len(some) :]
            if not self.wanted_samples:
                found += self._search_span()
        return found

    def _search_span(self) -> list[Detection]:
        """Return the triggers that the next span completes, and drop the samples that no later span needs."""
        if not self._tracking:
            self._follow(replace(self._track, cfo_rad=None))
        if len((candidates := self._candidates()).position):
            self._pending = self._pending.and_then(candidates)
        self._next += self._span
        found = self._decide()
        keep = self._next - _HISTORY - self._origin
        self._filled -= keep
        self._buffer[: self._filled] = self._buffer[keep : keep + self._filled]
        self._origin += keep
        return found

    def _candidates(self) -> _Candidates:
        """Return the candidates in the next span that pass gate and whole waveform."""
        bank, start = self._bank, self._next - self._origin
        place, strength, metric, shift, fine, coarse = self._gate.candidates(
            self._buffer, start, bank, self._false_alarm
        )
        if not len(place):
            return _NO_CANDIDATES
        cfo = np.array(bank.coarse_rad)[coarse] + bank.fine_rad[fine]
        return _Candidates(self._origin + place, strength, metric, np.array(SHIFTS_SAMPLES)[shift], cfo)

    def _decide(self) -> list[Detection]:
        """Choose among the candidates whose surroundings are fully known, and set the frequency to search."""
        found: list[Detection] = []
        while len(self._pending.position) and self._pending.position[0] + _LOOKAHEAD <= self._next:
            crowd = self._pending[self._pending.position < self._pending.position[0] + _LOOKAHEAD]
            peak = crowd.first_survivor()
            position = int(crowd.position[peak])
            self._pending = self._pending[self._pending.position >= position + REFRACTORY_SAMPLES]
            if (detection := self._measure(crowd, peak)) is not None:
                found.append(detection)
        # A doubtful hit is reported if the settings ask for it, but it does not change the searched frequency.
        clear = [detection for detection in found if detection.snr >= LEAST_FIT_SNR]
        if clear and self._tracking:
            self._follow(self._track.after_hit(clear[-1]))
        elif self._next - self._track.last_hit > self._lost_after:
            self._follow(self._track.lost())
        return found

    def _follow(self, track: Tracking) -> None:
        """Search the frequency that this state names from the next span on."""
        if track.cfo_rad is None:
            self._bank = self._search_bank
        elif self._bank is self._search_bank or self._bank.coarse_rad[0] != track.cfo_rad:
            self._bank = Bank.of((track.cfo_rad,), fine_steps=1)
        self._track = track

    def _measure(self, crowd: _Candidates, peak: int) -> Detection | None:
        """Return the fit; None if the start cut the trigger off or its SNR is too low."""
        position, cfo = int(crowd.position[peak]), float(crowd.cfo_rad[peak])
        begin = position - EDGE_SAMPLES
        since = position - self._first
        if begin < self._first - 1:
            return None
        if since < GATE_SPAN and is_cut(self._buffer[self._first - self._origin : self._filled], since, cfo):
            return None
        first = begin - _FIT_MARGIN
        window = self._buffer[first - self._origin :][: _TRIGGER_SAMPLES + 2 * _FIT_MARGIN]
        # The candidate is correct to a quarter sample and half a fine step, and each iteration squares the error.
        start = _FIT_MARGIN + float(crowd.shift_samples[peak])
        fit = estimate_arrival(window, trigger(), start, cfo, search=False, iterations=4)
        snr = float(fit.snr)
        if not snr >= self._min_snr:
            return None
        time, cfo = first + float(fit.time_samples), float(fit.cfo_rad_per_sample)
        return Detection(time, cfo, float(crowd.metric[peak]), snr)
