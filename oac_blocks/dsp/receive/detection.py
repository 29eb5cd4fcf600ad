# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect triggers by correlation, normalised by the energy under the template, so that the level need not be known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.checks import complex_array, integer, real, require
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.waveform.trigger import EDGE_SAMPLES, SEGMENT_SAMPLES, SEGMENTS, segment, trigger

_BANK_STEP_RAD = 0.05  # rad/sample between two hypotheses; a segment of 64 samples loses at most 1 dB between them


def bank_up_to(max_cfo_rad: float) -> tuple[float, ...]:
    """Return the frequencies in rad/sample that cover offsets up to this value."""
    # Each frequency covers half a step on both sides. The small constant prevents rounding from adding two more.
    beside = math.ceil(real("max_cfo_rad", max_cfo_rad, 0.0, 1.5) / _BANK_STEP_RAD - 0.5 - 1e-9)
    return tuple(_BANK_STEP_RAD * i for i in range(-beside, beside + 1))


CFO_BANK_RAD = bank_up_to(0.175)  # seven frequencies: 20 ppm at 2.4 GHz is 0.12 rad/sample at 2.5 Msps
# Probability per sample of white noise: about one alarm per minute at 20 Msps before the fit rejects it.
DEFAULT_FALSE_ALARM = 1e-9
# Share of the largest energy below which a window counts as silent, because rounding errors correlate in silence.
ENERGY_FLOOR = 1e-10
_FFT_SIZE = 2048
_BLOCKS_AT_ONCE = 8  # blocks in a batch; times seven hypotheses, this is about a megabyte
# Least linear SNR of the fitted waveform over everything else. Chance alarms of the gate stay below 0.11 (payload is
# not white noise and causes more of them), while a trigger at -7 dB exceeds it.
LEAST_FIT_SNR = 0.11


@dataclass(frozen=True)
class Detection:
    """A trigger: the arrival time of its first sample (with the fraction), its frequency offset and its quality."""

    time_samples: float
    cfo_rad_per_sample: float
    metric: float  # mean normalised correlation of the four segments, 0 to 1
    snr: float  # linear SNR per sample

    @property
    def sample(self) -> int:
        """Return the sample nearest to the arrival time."""
        return int(np.floor(self.time_samples))

    @property
    def fraction(self) -> float:
        """Return the arrival time minus the nearest sample, -0.5 to 0.5."""
        return self.time_samples - self.sample


def normalised_correlation(
    x: npt.ArrayLike, template: npt.ArrayLike, cfo_rad_per_sample: npt.ArrayLike = 0.0
) -> npt.NDArray[np.float32]:
    """Return |<template, x[i : i + L]>| over both norms for every i: float32 (..., n - L + 1), from 0 to 1.

    With several frequency offsets (h,) the template is rotated by each, and the result has the shape (h, n - L + 1).
    """
    x, template = complex_array("x", x), complex_array("template", template)
    require(x.ndim == 1, "x", f"shape {x.shape}", "one-dimensional")
    require(template.ndim == 1, "template", f"shape {template.shape}", "one-dimensional")
    n, length = len(x), len(template)
    require(n >= length, "x", f"{n} samples", f"at least as long as the template, {length} samples")
    offsets = np.asarray(cfo_rad_per_sample, np.float64)
    require(bool(np.isfinite(offsets).all()), "cfo_rad_per_sample", offsets, "finite")
    templates = template * phasors(offsets, length) / np.linalg.norm(template)

    size = max(_FFT_SIZE, scipy.fft.next_fast_len(4 * length))
    hop, out = size - length + 1, n - length + 1
    blocks = -(-out // hop)
    padded = np.zeros(blocks * hop + length - 1, np.complex64)
    padded[:n] = x
    segments = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    filters = np.conj(scipy.fft.fft(templates, size, axis=-1))[..., None, :]
    magnitude = np.empty((*offsets.shape, blocks, hop), np.float32)
    for start in range(0, blocks, _BLOCKS_AT_ONCE):
        some = slice(start, start + _BLOCKS_AT_ONCE)
        spectra = scipy.fft.fft(segments[some], axis=-1)
        np.abs(scipy.fft.ifft(spectra * filters, axis=-1)[..., :hop], out=magnitude[..., some, :])
    metric = magnitude.reshape(*offsets.shape, -1)[..., :out]
    metric *= _inverse_norms(x, length)
    return np.minimum(metric, np.float32(1), out=metric)


def _inverse_norms(x: npt.NDArray[np.complex64], length: int) -> npt.NDArray[np.float32]:
    """Return 1 / ||x[i : i + length]|| for every i."""
    # The sums are float64, because the difference of two long sums must resolve the energy of a quiet window.
    power = np.square(x.real, dtype=np.float64)
    power += np.square(x.imag, dtype=np.float64)
    running = np.concatenate(([0.0], np.cumsum(power)))
    energy = running[length:] - running[:-length]
    floor = max(float(energy.max()) * ENERGY_FLOOR, float(np.finfo(np.float32).tiny))
    return (1 / np.sqrt(np.maximum(energy, floor))).astype(np.float32)


def trigger_metric(x: npt.ArrayLike, cfo_bank_rad: tuple[float, ...] = CFO_BANK_RAD) -> npt.NDArray[np.float32]:
    """Return the mean normalised correlation of the four segments, (hypotheses, n - 255), for a first segment at i."""
    single = normalised_correlation(x, segment(), np.array(cfo_bank_rad))
    span = (SEGMENTS - 1) * SEGMENT_SAMPLES
    out = single.shape[-1] - span
    require(out > 0, "x", f"{np.size(x)} samples", f"at least {span + SEGMENT_SAMPLES} samples long")
    total = single[:, :out].copy()
    for i in range(1, SEGMENTS):
        total += single[:, i * SEGMENT_SAMPLES : i * SEGMENT_SAMPLES + out]
    total /= SEGMENTS
    return total


@lru_cache(maxsize=32)
def trigger_threshold(
    false_alarm_per_sample: float = DEFAULT_FALSE_ALARM, hypotheses: int = len(CFO_BANK_RAD)
) -> float:
    """Return the metric that white noise exceeds with at most this probability per sample.

    In noise the squared correlation of a segment is distributed as Beta(1, L - 1). The distribution of the mean of four
    square roots of it is computed by convolving densities on a fine grid. A union bound covers the hypotheses.
    """
    wanted = real("false_alarm_per_sample", false_alarm_per_sample, 0.0, 1.0, open_low=True)
    wanted /= integer("hypotheses", hypotheses, 1)
    points = 4096
    edges = np.arange(points + 1) / points
    cell = -np.diff((1 - edges**2) ** (SEGMENT_SAMPLES - 1))
    density = cell
    for _ in range(SEGMENTS - 1):
        density = np.convolve(density, cell)
    # Tail sums from the far end keep small probabilities exact. Cell i of the sum is centred at (i + 2) / 4096.
    tail = np.cumsum(density[::-1])[::-1]
    first = int(np.argmax(tail <= wanted))
    return float((first + SEGMENTS / 2) / points / SEGMENTS)


def find_triggers(
    x: npt.ArrayLike,
    threshold: float | None = None,
    cfo_bank_rad: tuple[float, ...] = CFO_BANK_RAD,
    refractory_samples: int = SEGMENTS * SEGMENT_SAMPLES,
) -> list[Detection]:
    """Return all triggers in x in order of time, each with fractional time and frequency offset.

    The gate is :func:`trigger_metric`. At its peaks the full waveform is fitted and must reach the least SNR. A peak
    closer than ``refractory_samples`` to a stronger one is a side peak, because the trigger is periodic, and does not
    count. A trigger that is cut off by the end of the record is not reported, so records of a stream must overlap by
    the length of a trigger.

    This function is the plain definition, with a selectable gate threshold. ``TriggerSearch`` finds the same triggers
    in a stream by other means (a lower gate, then the whole waveform) and is tested against this function, so neither
    uses the other.
    """
    x = complex_array("x", x)
    require(len(cfo_bank_rad) > 0, "cfo_bank_rad", cfo_bank_rad, "at least one frequency")
    refractory = integer("refractory_samples", refractory_samples, 1)
    if threshold is None:
        threshold = trigger_threshold(hypotheses=len(cfo_bank_rad))
    threshold = real("threshold", threshold, 0.0, 1.0)
    bank = trigger_metric(x, cfo_bank_rad)
    metric = bank.max(axis=0)
    detections = []
    for peak in _peaks(metric, threshold, refractory):
        hypothesis = cfo_bank_rad[int(bank[:, peak].argmax())]
        if is_cut(x, peak, hypothesis):
            continue
        fit = estimate_arrival(x, trigger(), peak - EDGE_SAMPLES, hypothesis)
        time, cfo, snr = float(fit.time_samples), float(fit.cfo_rad_per_sample), float(fit.snr)
        if snr >= LEAST_FIT_SNR:
            detections.append(Detection(time, cfo, float(metric[peak]), snr))
    return detections


def is_cut(x: npt.NDArray[np.complex64], peak: int, cfo_rad: float) -> bool:
    """Return whether the record's edge cut this trigger off: three segments can look like four with one missing."""
    span = SEGMENTS * SEGMENT_SAMPLES
    margin = span - SEGMENT_SAMPLES
    if margin <= peak <= len(x) - span - margin:
        return False
    pieces = x[peak : peak + span].reshape(SEGMENTS, SEGMENT_SAMPLES)
    template = segment() * phasors(cfo_rad, SEGMENT_SAMPLES)
    norms = np.linalg.norm(pieces, axis=1) * np.linalg.norm(template)
    correlation = np.abs(pieces @ template.conj()) / np.maximum(norms, np.finfo(np.float32).tiny)
    return bool(min(correlation[0], correlation[-1]) < correlation.mean() / 2)


def _peaks(metric: npt.NDArray[np.float32], limit: float, refractory: int) -> list[int]:
    """Return local maxima above the limit in order of time; the strongest suppress their surroundings first."""
    highest_around = scipy.ndimage.maximum_filter1d(metric, SEGMENT_SAMPLES // 2 + 1)
    candidates = np.flatnonzero((metric > limit) & (metric == highest_around))
    chosen: list[int] = []
    while len(candidates):
        best = int(candidates[metric[candidates].argmax()])
        chosen.append(best)
        candidates = candidates[np.abs(candidates - best) >= refractory]
    return sorted(chosen)
