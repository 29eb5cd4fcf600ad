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
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.receive.detection import (
    CFO_BANK_RAD,
    DEFAULT_FALSE_ALARM,
    ENERGY_FLOOR,
    LEAST_FIT_SNR,
    Detection,
    is_cut,
    trigger_threshold,
)
from oac_blocks.dsp.receive.tracking import SearchMark, Tracking
from oac_blocks.dsp.waveform.trigger import EDGE_SAMPLES, SEGMENT_SAMPLES, SEGMENTS, segment, trigger

DEFAULT_MIN_SNR_DB = 10 * math.log10(LEAST_FIT_SNR)
# Samples within which only the strongest candidate counts: side peaks of the trigger are 64 samples apart.
REFRACTORY_SAMPLES = SEGMENTS * SEGMENT_SAMPLES
_LOOKAHEAD = 4 * REFRACTORY_SAMPLES  # samples to wait before a choice among candidates that are close to each other
_TRIGGER_SAMPLES = len(trigger())
_FIT_MARGIN = 64
_HISTORY = _LOOKAHEAD + _TRIGGER_SAMPLES + 2 * _FIT_MARGIN  # samples before the span that a decision may still need
_FFT_SIZE = 1024
_HOP = _FFT_SIZE - SEGMENT_SAMPLES + 1
_GATE_SPAN = (SEGMENTS - 1) * SEGMENT_SAMPLES  # samples of later correlations that the gate at a sample needs
_PIECE_SAMPLES = 14  # samples in a piece of the whole waveform, short enough to add up coherently on the fine grid
# Rad/sample between two fine frequencies; a waveform of 280 samples loses at most 0.7 dB between them.
_FINE_STEP_RAD = 0.01
_MOST_OPEN = 1 / 32  # largest share of a span's samples that pass the gate: a strong carrier would open it all the time
# Shifts of the whole waveform in samples; at two samples per chip, half a sample of offset costs 0.5 dB.
_SHIFTS_SAMPLES = (0.0, 0.5)
_LARGEST_POWER = 1e30  # largest power of a sample; beyond it sums overflow float32, and no radio delivers such samples


@cache
def _shifted_trigger() -> npt.NDArray[np.complex64]:
    """Return the trigger of unit energy, (shifts, 280), each delayed by a fraction of a sample."""
    turns = np.exp(-2j * np.pi * scipy.fft.fftfreq(_TRIGGER_SAMPLES) * np.array(_SHIFTS_SAMPLES)[:, None])
    shifted = scipy.fft.ifft(scipy.fft.fft(trigger()) * turns, axis=-1)
    return (shifted / np.linalg.norm(shifted, axis=-1, keepdims=True)).astype(np.complex64)


@dataclass(frozen=True)
class _Bank:
    """Frequencies to search: coarse ones for the gate, and a fine grid around each for the whole waveform."""

    coarse_rad: tuple[float, ...]
    fine_rad: npt.NDArray[np.float64]  # offsets from a coarse frequency
    filters: npt.NDArray[np.complex64]  # (coarse, _FFT_SIZE): conjugate spectra of one segment of unit energy
    templates: npt.NDArray[np.complex64]  # (coarse, shifts, 280): conjugates of the whole waveform of unit energy
    steering: npt.NDArray[np.complex64]  # (pieces, fine): phasors of the fine frequencies

    @classmethod
    def of(cls, coarse_rad: tuple[float, ...], fine_steps: int) -> _Bank:
        offsets = np.array(coarse_rad)
        pattern = segment() / np.linalg.norm(segment()) * phasors(offsets, SEGMENT_SAMPLES)
        whole = _shifted_trigger() * phasors(offsets, _TRIGGER_SAMPLES)[:, None, :]
        fine = _FINE_STEP_RAD * np.arange(-fine_steps, fine_steps + 1)
        middles = _PIECE_SAMPLES * np.arange(_TRIGGER_SAMPLES // _PIECE_SAMPLES)
        return cls(
            coarse_rad,
            fine,
            np.conj(scipy.fft.fft(pattern, _FFT_SIZE, axis=-1)).astype(np.complex64),
            np.conj(whole),
            np.exp(-1j * middles[:, None] * fine).astype(np.complex64),
        )

    @cached_property
    def hypotheses(self) -> int:
        """Return the number of distinct frequencies and shifts; the fine grids of neighbours overlap."""
        distinct = np.unique(np.rint(np.add.outer(self.coarse_rad, self.fine_rad) / (0.1 * _FINE_STEP_RAD)))
        return len(distinct) * len(_SHIFTS_SAMPLES)


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
        require(len(cfo_bank_rad) > 0, "cfo_bank_rad", cfo_bank_rad, "at least one frequency")
        bank_rad = tuple(real("cfo_bank_rad", cfo, -math.pi, math.pi) for cfo in cfo_bank_rad)
        self._rows = integer("span_rows", span_rows, 1, 1024)
        self._span = self._rows * _HOP - _GATE_SPAN
        self._correlated = self._rows * _HOP + SEGMENT_SAMPLES - 1
        # The fine grids overlap, because noise may make the gate prefer the farther of two neighbouring frequencies.
        self._bank = self._search_bank = _Bank.of(bank_rad, fine_steps=3)
        self.set_false_alarm(false_alarm_per_sample)
        self.set_min_snr_db(min_snr_db)
        self.set_tracking(tracking)
        self.set_lost_after_samples(lost_after_samples)
        self.bad_samples = 0  # number of NaN, infinite or very large samples, which count as zeros
        self.reset()

    @property
    def latency_samples(self) -> int:
        """Return the latest delay from a trigger's first sample to its report, in samples."""
        return self._span + _LOOKAHEAD + _GATE_SPAN + SEGMENT_SAMPLES + 2 * EDGE_SAMPLES

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
        return self._next + self._correlated + EDGE_SAMPLES - self._origin - len(self._buffer)

    def _begin(self, first: int) -> None:
        """Search from this sample of the stream on."""
        # The search starts before this sample, in silence, so that a cut trigger must exceed its own side peaks.
        self._buffer = np.zeros(_HISTORY + _TRIGGER_SAMPLES, np.complex64)
        self._first = first
        self._origin = first - len(self._buffer)  # stream index of the buffer's first sample
        self._next = first - _TRIGGER_SAMPLES  # first sample whose gate is not known yet
        self._pending = _NO_CANDIDATES

    def push(self, samples: npt.NDArray[np.complex64]) -> list[Detection]:
        """Return the triggers that these samples complete, in order of time."""
        samples = np.asarray(samples)
        require(samples.ndim == 1, "samples", f"shape {samples.shape}", "one-dimensional")
        require(samples.dtype == np.complex64, "samples", samples.dtype, "complex64")
        keep = self._next - _HISTORY - self._origin
        self._buffer = np.concatenate((self._buffer[keep:], samples))
        self._origin += keep
        found: list[Detection] = []
        with np.errstate(over="ignore", invalid="ignore"):  # bad samples are removed on the way
            # The whole waveform reaches beyond the segments.
            while self.wanted_samples <= 0:
                start = self._next - self._origin
                if not self._tracking:
                    self._follow(replace(self._track, cfo_rad=None))
                self._pending = self._pending.and_then(self._candidates(start, start + self._correlated))
                self._next += self._span
                found += self._decide()
        return found

    def _candidates(self, start: int, stop: int) -> _Candidates:
        """Return the candidates that pass gate and whole waveform in the span whose gates need buffer[start:stop]."""
        bank, x = self._bank, self._buffer
        gates = self._gates(x[start:stop])
        # The gate must not lose what the whole waveform would find; the square root of the rate is more than enough.
        limit = trigger_threshold(math.sqrt(self._false_alarm), len(bank.coarse_rad))
        strongest = gates.max(axis=0) if len(gates) > 1 else gates[0]
        open_at = np.flatnonzero(strongest > limit)
        most = math.ceil(_MOST_OPEN * self._span)
        if len(open_at) > most:
            open_at = np.sort(open_at[np.argpartition(strongest[open_at], -most)[-most:]])
        if not len(open_at):
            return _NO_CANDIDATES
        coarse = gates[:, open_at].argmax(axis=0)
        windows = x[(start + open_at - EDGE_SAMPLES)[:, None] + np.arange(_TRIGGER_SAMPLES)]
        energy = np.maximum(np.sum(windows.real**2 + windows.imag**2, axis=1), np.finfo(np.float32).tiny)
        turned = windows[:, None, :] * bank.templates[coarse]
        pieces = turned.reshape(len(windows), len(_SHIFTS_SAMPLES), -1, _PIECE_SAMPLES).sum(axis=-1)
        response = np.abs(np.einsum("csp,pf->csf", pieces, bank.steering)).reshape(len(windows), -1)
        strength = response.max(axis=1) ** 2 / energy
        shift, fine = np.divmod(response.argmax(axis=1), len(bank.fine_rad))
        # In noise the squared correlation with one waveform is Beta(1, L - 1); the frequencies enter by a union bound.
        least = 1 - (self._false_alarm / bank.hypotheses) ** (1 / (_TRIGGER_SAMPLES - 1))
        cfo = np.array(bank.coarse_rad)[coarse] + bank.fine_rad[fine]
        columns = (self._next + open_at, np.sqrt(strength), strongest[open_at], np.array(_SHIFTS_SAMPLES)[shift], cfo)
        return _Candidates(*columns)[strength > least]

    def _gates(self, x: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
        """Return the mean normalised correlation of the four segments, (frequencies, span)."""
        power = x.real**2
        power += x.imag**2
        if not power.max() < _LARGEST_POWER:
            bad = ~(power < _LARGEST_POWER)
            self.bad_samples += int(np.count_nonzero(bad))
            x[bad] = 0
            power[bad] = 0
        # Sums of 2, 4, ... 64 neighbours are as fast as a running sum, without a difference of large numbers.
        energy, width = power, 1
        while width < SEGMENT_SAMPLES:
            energy = energy[:-width] + energy[width:]
            width *= 2
        floor = max(float(energy.max()) * ENERGY_FLOOR, float(np.finfo(np.float32).tiny))
        inverse_norm = 1 / (SEGMENTS * np.sqrt(np.maximum(energy, np.float32(floor))))
        # The rows are copied first, because scipy transforms overlapping rows five times as slowly.
        rows = np.lib.stride_tricks.as_strided(x, (self._rows, _FFT_SIZE), (_HOP * x.itemsize, x.itemsize)).copy()
        spectra = scipy.fft.fft(rows, axis=-1, overwrite_x=True)
        gates = np.empty((len(self._bank.filters), self._span), np.float32)
        magnitude = np.empty((self._rows, _HOP), np.float32)
        for gate, spectrum in zip(gates, self._bank.filters, strict=True):
            np.abs(scipy.fft.ifft(spectra * spectrum, axis=-1, overwrite_x=True)[:, :_HOP], out=magnitude)
            single = magnitude.reshape(-1)
            single *= inverse_norm
            pair = single[:-SEGMENT_SAMPLES] + single[SEGMENT_SAMPLES:]
            np.add(pair[: self._span], pair[2 * SEGMENT_SAMPLES :], out=gate)
        return gates

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
            self._bank = _Bank.of((track.cfo_rad,), fine_steps=1)
        self._track = track

    def _measure(self, crowd: _Candidates, peak: int) -> Detection | None:
        """Return the fit; None if the start cut the trigger off or its SNR is too low."""
        position, cfo = int(crowd.position[peak]), float(crowd.cfo_rad[peak])
        begin = position - EDGE_SAMPLES
        since = position - self._first
        if begin < self._first - 1:
            return None
        if since < _GATE_SPAN and is_cut(self._buffer[self._first - self._origin :], since, cfo):
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
