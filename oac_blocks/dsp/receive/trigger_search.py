# SPDX-License-Identifier: GPL-3.0-or-later
"""Triggers in a stream that comes in pieces of any size: each is found once, and alike however the stream is cut.

Three stages, each on fewer samples and with a sharper eye than the one before:

1. *gate*, on all samples: the mean normalised correlation of the four segments, for each frequency of a bank. It lets
   far more noise through than is wanted in the end, for it adds magnitudes and not amplitudes;
2. *whole waveform*, where the gate opened: one coherent correlation of 280 samples on a fine grid of frequencies. Its
   threshold sets the rate of false alarms;
3. *fit*, on what is left: time and frequency to the Cramer-Rao bound (``arrival``).

The stream is worked through in spans of a fixed length, counted from its first sample. So all that is decided, the
switch from the bank to one tracked frequency too, depends on the samples alone and not on how they came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from oac_blocks.dsp.waveform.trigger import EDGE_SAMPLES, SEGMENT_SAMPLES, SEGMENTS, segment, trigger

DEFAULT_MIN_SNR_DB = 10 * math.log10(LEAST_FIT_SNR)
REFRACTORY_SAMPLES = SEGMENTS * SEGMENT_SAMPLES  # within it the strongest counts: the call's side peaks are 64 apart
_LOOKAHEAD = 4 * REFRACTORY_SAMPLES  # before a choice among candidates that crowd each other
_TRIGGER_SAMPLES = len(trigger())
_FIT_MARGIN = 64
_HISTORY = _LOOKAHEAD + _TRIGGER_SAMPLES + 2 * _FIT_MARGIN  # what a decision may still look at, before the span
_FFT_SIZE = 1024
_HOP = _FFT_SIZE - SEGMENT_SAMPLES + 1
_GATE_SPAN = (SEGMENTS - 1) * SEGMENT_SAMPLES  # correlations after its own that the gate at a sample needs
_PIECE_SAMPLES = 14  # of the whole waveform: short enough to add up coherently at any frequency of a fine grid
_FINE_STEP_RAD = 0.01  # a waveform of 280 samples loses at most 0.7 dB between two of them
_MOST_OPEN = 1 / 32  # of a span's samples go on from the gate: a strong carrier would open it all the time
_SHIFTS_SAMPLES = (0.0, 0.5)  # of the whole waveform: at two samples a chip, half a sample off costs 0.5 dB
_RETUNE_RAD = 0.004  # a tracked frequency that is off by so little costs 0.1 dB
_SURE_SNR = 2.0  # linear: what is heard so clearly is no side peak
_LARGEST_DROP = 0.1  # of the SNR from one tracked hit to the next, before the bank is asked again
_WEAK_HITS = 4  # in a row, likewise
_LARGEST_POWER = 1e30  # beyond it sums overflow in float32, and it is no sample of any radio


@cache
def _shifted_trigger() -> npt.NDArray[np.complex64]:
    """The trigger of unit energy, (shifts, 280), each a fraction of a sample later."""
    turns = np.exp(-2j * np.pi * scipy.fft.fftfreq(_TRIGGER_SAMPLES) * np.array(_SHIFTS_SAMPLES)[:, None])
    shifted = scipy.fft.ifft(scipy.fft.fft(trigger()) * turns, axis=-1)
    return (shifted / np.linalg.norm(shifted, axis=-1, keepdims=True)).astype(np.complex64)


@dataclass(frozen=True)
class _Bank:
    """Frequencies to look at: coarse ones for the gate, and a fine grid around each for the whole waveform."""

    coarse_rad: tuple[float, ...]
    fine_rad: npt.NDArray[np.float64]  # relative to a coarse one
    filters: npt.NDArray[np.complex64]  # (coarse, _FFT_SIZE): spectra of one segment of unit energy, conjugated
    templates: npt.NDArray[np.complex64]  # (coarse, shifts, 280): the whole waveform of unit energy, conjugated
    steering: npt.NDArray[np.complex64]  # (pieces, fine)

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
        """Frequencies and shifts that are told apart; the fine grids of neighbours overlap."""
        distinct = np.unique(np.rint(np.add.outer(self.coarse_rad, self.fine_rad) / (0.1 * _FINE_STEP_RAD)))
        return len(distinct) * len(_SHIFTS_SAMPLES)


@dataclass(frozen=True)
class _Candidates:
    """Samples where a first segment may begin, in order of time, counted from the stream's first sample."""

    position: npt.NDArray[np.int64]
    strength: npt.NDArray[np.float32]  # of the whole waveform, 0 to 1
    metric: npt.NDArray[np.float32]  # of the gate, 0 to 1
    shift_samples: npt.NDArray[np.float64]
    cfo_rad: npt.NDArray[np.float64]

    def __getitem__(self, some: npt.NDArray[np.bool_]) -> _Candidates:
        return _Candidates(*(column[some] for column in self._columns()))

    def and_then(self, other: _Candidates) -> _Candidates:
        return _Candidates(*map(np.concatenate, zip(self._columns(), other._columns(), strict=True)))

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.position, self.strength, self.metric, self.shift_samples, self.cfo_rad

    def first_survivor(self) -> int:
        """Index of the earliest peak that is left when the strongest silence their surroundings one after another."""
        alive = np.arange(len(self.position))
        earliest = len(alive)
        while len(alive):
            best = int(alive[self.strength[alive].argmax()])
            earliest = min(earliest, best)
            alive = alive[np.abs(self.position[alive] - self.position[best]) >= REFRACTORY_SAMPLES]
        return earliest


_NO_CANDIDATES = _Candidates(np.empty(0, np.int64), *np.empty((2, 0), np.float32), *np.empty((2, 0)))


class TriggerSearch:
    """Finds the triggers of a stream. ``push`` takes its next samples and returns the triggers decided with them.

    A trigger whose first sample is n is returned at the latest by the push that brings sample n + ``latency_samples``.
    Times count from the first sample pushed. A trigger that began before it is not reported.

    - ``false_alarm_per_sample``: of white noise, before the fit's SNR is looked at;
    - ``min_snr_db``: of the fit. Payload is not white and correlates by chance more often than noise; what does so
      stays below the default, a trigger at -7 dB does not;
    - ``cfo_bank_rad``: frequencies to search, 0.05 rad/sample apart or less;
    - ``tracking``: after a hit look at its frequency alone, which is three times as fast, until
      ``lost_after_samples`` have passed without another;
    - ``span_rows``: FFTs in a span. Fewer for less latency, more for speed.
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
        # Fine grids that overlap: noise may make the gate prefer the farther one of two neighbours.
        self._search_bank = _Bank.of(bank_rad, fine_steps=3)
        self.set_false_alarm(false_alarm_per_sample)
        self.set_min_snr_db(min_snr_db)
        self.set_tracking(tracking)
        self.set_lost_after_samples(lost_after_samples)
        self.bad_samples = 0  # NaN, infinite or absurdly large; taken as silence
        self.reset()

    @property
    def latency_samples(self) -> int:
        return self._span + _LOOKAHEAD + _GATE_SPAN + SEGMENT_SAMPLES + 2 * EDGE_SAMPLES

    @property
    def tracked_cfo_rad(self) -> float | None:
        """The one frequency that is looked at, in rad/sample; None while the whole bank is."""
        return None if self._bank is self._search_bank else self._bank.coarse_rad[0]

    def set_false_alarm(self, per_sample: float) -> None:
        self._false_alarm = real("false_alarm_per_sample", per_sample, 1e-15, 0.1)

    def set_min_snr_db(self, min_snr_db: float) -> None:
        self._min_snr = 10 ** (real("min_snr_db", min_snr_db, -100.0, 100.0) / 10)

    def set_tracking(self, tracking: bool) -> None:
        self._tracking = bool(tracking)

    def set_lost_after_samples(self, samples: int) -> None:
        self._lost_after = integer("lost_after_samples", samples, 1)

    def reset(self) -> None:
        """Forget the stream: the next sample is number 0."""
        self._bank = self._search_bank
        self._last_hit = 0
        self._last_snr, self._weak_hits = 0.0, 0
        self._begin(0)

    def skip_to(self, sample: int) -> None:
        """Go on at this sample of the stream: it is the next one that is pushed, and none is looked for before it.

        What was pushed and is not decided yet is given up. The search begins there as it does at the start of a stream:
        a trigger that began before it is not reported. The tracked frequency stays.
        """
        self._begin(integer("sample", sample, 0))

    @property
    def wanted_samples(self) -> int:
        """How many more make up the next span. Pushed in such pieces, the stream gives each trigger at once."""
        return self._next + self._correlated + EDGE_SAMPLES - self._origin - len(self._buffer)

    def _begin(self, first: int) -> None:
        """Search from this sample of the stream on."""
        # The search starts before it, in silence: a trigger that is cut there must outdo its own side peaks.
        self._buffer = np.zeros(_HISTORY + _TRIGGER_SAMPLES, np.complex64)
        self._first = first
        self._origin = first - len(self._buffer)  # the stream's number of the buffer's first sample
        self._next = first - _TRIGGER_SAMPLES  # first sample whose gate is not known yet
        self._pending = _NO_CANDIDATES

    def push(self, samples: npt.NDArray[np.complex64]) -> list[Detection]:
        """The triggers that these samples complete, in order of time."""
        samples = np.asarray(samples)
        require(samples.ndim == 1, "samples", f"shape {samples.shape}", "one-dimensional")
        require(samples.dtype == np.complex64, "samples", samples.dtype, "complex64")
        keep = self._next - _HISTORY - self._origin
        self._buffer = np.concatenate((self._buffer[keep:], samples))
        self._origin += keep
        found: list[Detection] = []
        with np.errstate(over="ignore", invalid="ignore"):  # of bad samples, which are sorted out on the way
            # The whole waveform reaches beyond the segments.
            while self.wanted_samples <= 0:
                start = self._next - self._origin
                if not self._tracking:
                    self._bank = self._search_bank
                self._pending = self._pending.and_then(self._candidates(start, start + self._correlated))
                self._next += self._span
                found += self._decide()
        return found

    def _candidates(self, start: int, stop: int) -> _Candidates:
        """What passes gate and whole waveform in the span that buffer[start:stop] gives the gates of."""
        bank, x = self._bank, self._buffer
        gates = self._gates(x[start:stop])
        # The gate must not lose what the whole waveform would find: the root of the rate is more than enough.
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
        # In noise the squared correlation with one waveform is Beta(1, L - 1); union bound over the frequencies.
        least = 1 - (self._false_alarm / bank.hypotheses) ** (1 / (_TRIGGER_SAMPLES - 1))
        cfo = np.array(bank.coarse_rad)[coarse] + bank.fine_rad[fine]
        columns = (self._next + open_at, np.sqrt(strength), strongest[open_at], np.array(_SHIFTS_SAMPLES)[shift], cfo)
        return _Candidates(*columns)[strength > least]

    def _gates(self, x: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
        """Mean normalised correlation of the four segments, (frequencies, span)."""
        power = x.real**2
        power += x.imag**2
        if not power.max() < _LARGEST_POWER:
            bad = ~(power < _LARGEST_POWER)
            self.bad_samples += int(np.count_nonzero(bad))
            x[bad] = 0
            power[bad] = 0
        # Sums of 2, 4, ... 64 neighbours: as quick as a running sum, and no difference of large numbers.
        energy, width = power, 1
        while width < SEGMENT_SAMPLES:
            energy = energy[:-width] + energy[width:]
            width *= 2
        floor = max(float(energy.max()) * ENERGY_FLOOR, float(np.finfo(np.float32).tiny))
        inverse_norm = 1 / (SEGMENTS * np.sqrt(np.maximum(energy, np.float32(floor))))
        # Copied first: scipy transforms overlapping rows five times as slowly.
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
        """Choose among the candidates that all of their surroundings are known of, and set the frequency to look at."""
        found: list[Detection] = []
        while len(self._pending.position) and self._pending.position[0] + _LOOKAHEAD <= self._next:
            crowd = self._pending[self._pending.position < self._pending.position[0] + _LOOKAHEAD]
            peak = crowd.first_survivor()
            position = int(crowd.position[peak])
            self._pending = self._pending[self._pending.position >= position + REFRACTORY_SAMPLES]
            if (detection := self._measure(crowd, peak)) is not None:
                found.append(detection)
        # A doubtful hit is reported where the settings ask for it, but must not turn the search away.
        clear = [detection for detection in found if detection.snr >= LEAST_FIT_SNR]
        if clear and self._tracking:
            self._last_hit = clear[-1].sample
            cfo, tracked = clear[-1].cfo_rad_per_sample, self.tracked_cfo_rad
            if tracked is not None and self._is_doubtful(clear[-1].snr):
                self._bank = self._search_bank
            elif tracked is None or abs(cfo - tracked) > _RETUNE_RAD:
                self._bank = _Bank.of((cfo,), fine_steps=1)
            self._last_snr = clear[-1].snr
        elif self._next - self._last_hit > self._lost_after:
            self._bank = self._search_bank
        return found

    def _is_doubtful(self, snr: float) -> bool:
        """Might a tracked hit be a side peak of a trigger whose frequency has jumped? Then all are looked at once.

        A side peak explains a third of a trigger at most, whatever its level.
        """
        self._weak_hits = self._weak_hits + 1 if snr < _SURE_SNR else 0
        if self._weak_hits < _WEAK_HITS and snr > self._last_snr * _LARGEST_DROP:
            return False
        self._weak_hits = 0
        return True

    def _measure(self, crowd: _Candidates, peak: int) -> Detection | None:
        """The fit; None if the start cut the trigger, or if it is not heard clearly enough."""
        position, cfo = int(crowd.position[peak]), float(crowd.cfo_rad[peak])
        begin = position - EDGE_SAMPLES
        since = position - self._first
        if begin < self._first - 1:
            return None
        if since < _GATE_SPAN and is_cut(self._buffer[self._first - self._origin :], since, cfo):
            return None
        first = begin - _FIT_MARGIN
        window = self._buffer[first - self._origin :][: _TRIGGER_SAMPLES + 2 * _FIT_MARGIN]
        # The candidate is right to a quarter of a sample and half a step of the fine grid; each step squares the error.
        start = _FIT_MARGIN + float(crowd.shift_samples[peak])
        fit = estimate_arrival(window, trigger(), start, cfo, search=False, iterations=4)
        snr = float(fit.snr)
        if not snr >= self._min_snr:
            return None
        time, cfo = first + float(fit.time_samples), float(fit.cfo_rad_per_sample)
        return Detection(time, cfo, float(crowd.metric[peak]), snr)
