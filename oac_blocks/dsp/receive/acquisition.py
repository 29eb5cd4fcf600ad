# SPDX-License-Identifier: GPL-3.0-or-later
"""Find clients of unknown sample offset by their own sequences in the slots of an acquire round.

The clients of a slot may arrive at any time within it, overlap each other and have very different levels. The slot is
therefore processed by successive cancellation: the strongest client is found, fitted and subtracted, multipath
included, before the search for the next one. In the end each client is fitted once more with all others subtracted.

A client has corrected its carrier frequency offset with its measurement of the trigger. One symbol cannot measure the
remaining offset (some 1e-4 rad/sample), and for a chirp it would look like a delay. The time is therefore fitted at
frequency 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp import bounds
from oac_blocks.dsp.checks import complex_array, integer, real, require
from oac_blocks.dsp.receive.arrival import Arrival, estimate_arrival
from oac_blocks.dsp.receive.detection import ENERGY_FLOOR
from oac_blocks.dsp.receive.peak_threshold import peak_threshold
from oac_blocks.dsp.waveform.client_sequence import client_sequence
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout

MARGIN_SAMPLES = 64  # samples on each side of the slots, for the tails of a fractional delay
DEFAULT_FALSE_ALARM = 1e-6
_MOST_PATHS = 8  # largest number of paths of one client that are subtracted before the search for weaker clients
_BEFORE_SAMPLES = 8  # samples before the strongest path in which an earlier path may be
_SWEEPS = 2  # number of passes in which each client is fitted again with the others subtracted


@dataclass(frozen=True)
class Acquired:
    """Estimates, one element for each client of the layout; NaN for a client that was not detected."""

    offset_samples: npt.NDArray[np.float64]  # sample offset of the strongest path; positive is late
    sigma_samples: npt.NDArray[np.float64]  # standard deviation of the offset by the Cramer-Rao bound
    power_db: npt.NDArray[np.float64]  # energy of a subcarrier; 0 dB for unit energy
    snr_db: npt.NDArray[np.float64]  # energy of a subcarrier over the noise of a subcarrier


def samples_needed(layout: RoundLayout) -> int:
    """Return how many samples after ``answer_samples`` are needed to receive a client that is half a slot late."""
    return layout.acquisition_samples + layout.num.symbol_samples + MARGIN_SAMPLES


def acquire(
    x: npt.ArrayLike,
    layout: RoundLayout,
    answer_at: float,
    clients: Iterable[int] | None = None,
    false_alarm: float = DEFAULT_FALSE_ALARM,
) -> Acquired:
    """Find the sequences of clients in a record, each in its own slot.

    Parameters
    ----------
    x : complex array
        The record, from ``MARGIN_SAMPLES`` before ``answer_at`` to ``samples_needed`` after it.
    layout : RoundLayout
    answer_at : float
        Nominal position of the answers in the record, fraction included.
    clients : iterable of int, optional
        Clients to search for; all clients by default.
    false_alarm : float
        Upper bound of the probability that a silent client is detected in white noise.

    Returns
    -------
    Acquired
        Offsets of up to half a slot are found.
    """
    samples = complex_array("x", x)
    require(samples.ndim == 1, "x", f"shape {samples.shape}", "one-dimensional")
    answer_at = real("answer_at", answer_at, 0.0)
    first, needed = round(answer_at), samples_needed(layout)
    room = f"from {MARGIN_SAMPLES} to {len(samples) - needed}, for a record of {len(samples)} samples"
    require(MARGIN_SAMPLES <= first <= len(samples) - needed, "answer_at", answer_at, room)
    asked = range(layout.clients) if clients is None else clients
    wanted = sorted({integer("clients", client, 0, layout.clients - 1) for client in asked})
    peeled = _Peeled(samples, layout.num, layout.slot_samples, false_alarm)
    for slot in range(layout.slots):
        begin = first + slot * layout.slot_samples
        peeled.take([client for client in layout.clients_in_slot(slot) if client in wanted], begin)
    columns = np.full((4, layout.clients), np.nan)
    for client, fit in peeled.fits().items():
        wave, snr = _sequence(client, layout.num), float(fit.snr)
        columns[0, client] = float(fit.time_samples) - answer_at - layout.sequence_start_samples(client)
        columns[1, client] = math.sqrt(_delay_variance(client, layout.num) / max(snr, 1e-30))
        columns[2, client] = _db(abs(complex(fit.amplitude)) ** 2)
        # The sequence leaves subcarriers unused, so its power per sample is lower than the energy of a subcarrier.
        columns[3, client] = _db(snr / float(np.mean(np.abs(wave) ** 2)))
    return Acquired(*columns)


@dataclass
class _Path:
    time_samples: float
    amplitude: complex


class _Peeled:
    """A record from which clients are subtracted, strongest first, and the paths that were subtracted."""

    def __init__(self, x: npt.NDArray[np.complex64], num: Numerology, slot_samples: int, false_alarm: float) -> None:
        self._rest = x.astype(np.complex128)
        self._num, self._slot = num, slot_samples
        self._false_alarm = real("false_alarm", false_alarm, 1e-15, 0.5)
        self._paths: dict[int, list[_Path]] = {}
        self._floor = max(float(np.max(np.abs(x))) ** 2 * num.symbol_samples * ENERGY_FLOOR, 1e-30)

    def take(self, clients: list[int], begin: int) -> None:
        """Find and subtract those of these clients whose sequence begins within the slot that starts at ``begin``."""
        waiting = set(clients)
        while waiting:
            metrics = self._metrics(sorted(waiting), begin, self._slot)
            strongest = max(metrics, key=lambda client: float(metrics[client].max()))
            peak = int(metrics[strongest].argmax())
            if not metrics[strongest][peak] > self._threshold(strongest, self._slot):
                return
            self._paths[strongest] = [self._subtracted(strongest, begin + peak)]
            self._take_echoes(strongest, begin + peak)
            waiting.remove(strongest)

    def _take_echoes(self, client: int, peak: int) -> None:
        begin, span = peak - _BEFORE_SAMPLES, self._num.cp_samples + _BEFORE_SAMPLES
        begin = max(begin, 0)
        span = min(span, len(self._rest) - self._num.symbol_samples - begin)
        while span > 0 and len(self._paths[client]) < _MOST_PATHS:
            metric = self._metrics([client], begin, span)[client]
            echo = int(metric.argmax())
            if not metric[echo] > self._threshold(client, span):
                return
            self._paths[client].append(self._subtracted(client, begin + echo))

    def fits(self) -> dict[int, Arrival]:
        """Return each client's strongest path, fitted with everything else subtracted."""
        found: dict[int, Arrival] = {}
        for sweep in range(_SWEEPS):
            for client, paths in self._paths.items():
                strongest = max(paths, key=lambda path: abs(path.amplitude))
                self._add(client, strongest, 1.0)
                fit = self._fit(client, strongest.time_samples, search=False, iterations=2)
                strongest.time_samples, strongest.amplitude = float(fit.time_samples), complex(fit.amplitude)
                self._add(client, strongest, -1.0)
                if sweep == _SWEEPS - 1:
                    found[client] = fit
        return found

    def _threshold(self, client: int, window: int) -> float:
        length = self._num.symbol_samples
        # The Cramer-Rao bound is 1 / (2 length snr bandwidth^2).
        bandwidth = 1 / math.sqrt(2 * length * _delay_variance(client, self._num))
        return peak_threshold(self._false_alarm, window, bandwidth, length)

    def _metrics(self, clients: list[int], begin: int, count: int) -> dict[int, npt.NDArray[np.float64]]:
        """Return the share of the energy that each sequence explains if it begins at each of ``count + 1`` samples."""
        length = self._num.symbol_samples
        window = self._rest[begin : begin + count + length]
        size = scipy.fft.next_fast_len(len(window))
        spectrum = scipy.fft.fft(window.astype(np.complex64), size)
        running = np.concatenate(([0.0], np.cumsum(window.real**2 + window.imag**2)))
        energy = np.maximum(running[length:] - running[:-length], self._floor)
        metrics = {}
        for client in clients:
            wave = _sequence(client, self._num)
            response = scipy.fft.ifft(spectrum * np.conj(scipy.fft.fft(wave, size)))[: len(energy)]
            explained = (response.real**2 + response.imag**2) / float(np.sum(np.abs(wave) ** 2))
            metrics[client] = explained / energy
        return metrics

    def _subtracted(self, client: int, near: int) -> _Path:
        fit = self._fit(client, near, search=True, iterations=4)
        path = _Path(float(fit.time_samples), complex(fit.amplitude))
        self._add(client, path, -1.0)
        return path

    def _fit(self, client: int, near: float, *, search: bool, iterations: int) -> Arrival:
        first = max(round(near) - MARGIN_SAMPLES, 0)
        record = self._rest[first : first + self._num.symbol_samples + 2 * MARGIN_SAMPLES]
        wave, at = _sequence(client, self._num), near - first
        fit = estimate_arrival(record, wave, at, fit_cfo=False, search=search, iterations=iterations)
        return Arrival(fit.time_samples + first, fit.cfo_rad_per_sample, fit.amplitude, fit.snr)

    def _add(self, client: int, path: _Path, sign: float) -> None:
        """Add a path of this client, times ``sign``, to the remaining record."""
        first = round(path.time_samples)
        moved = sign * path.amplitude * _moved(client, self._num, path.time_samples - first)
        begin, stop = first - MARGIN_SAMPLES, first - MARGIN_SAMPLES + len(moved)
        inside = slice(max(begin, 0), min(stop, len(self._rest)))
        self._rest[inside] += moved[inside.start - begin : inside.stop - begin]


def _moved(client: int, num: Numerology, delay_samples: float) -> npt.NDArray[np.complex128]:
    """Return a client's sequence between margins, delayed by a fraction of a sample."""
    spectrum = _spectrum(client, num)
    moved: npt.NDArray[np.complex128] = scipy.fft.ifft(
        spectrum * np.exp(-2j * np.pi * scipy.fft.fftfreq(len(spectrum)) * delay_samples)
    )
    return moved


@lru_cache(maxsize=256)
def _sequence(client: int, num: Numerology) -> npt.NDArray[np.complex64]:
    return client_sequence(client, num)


@lru_cache(maxsize=256)
def _spectrum(client: int, num: Numerology) -> npt.NDArray[np.complex128]:
    spectrum: npt.NDArray[np.complex128] = scipy.fft.fft(
        np.pad(client_sequence(client, num), MARGIN_SAMPLES).astype(np.complex128)
    )
    return spectrum


@lru_cache(maxsize=256)
def _delay_variance(client: int, num: Numerology) -> float:
    """Return the Cramer-Rao bound of the delay's variance at an SNR of 1 per sample."""
    return bounds.delay_crlb(client_sequence(client, num), 1.0)


def _db(ratio: float) -> float:
    return 10 * math.log10(max(ratio, 1e-30))
