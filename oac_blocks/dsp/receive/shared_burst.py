# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect all clients in the sync symbols of a burst and estimate their delays, powers and frequencies.

A client's clock may drift during the burst, so its delay changes steadily from one sync symbol to the next. The delay
is searched with the energy of all sync symbols, fitted in each and averaged. A silent client in the fit would absorb
noise from the residual of the others, so only detected clients are in the final fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive.peak_threshold import peak_threshold
from oac_blocks.dsp.receive.shared_fit import GRID, Fit, Tones, drift_ways, refine
from oac_blocks.dsp.receive.slot_estimates import flattened_slot
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples

DEFAULT_FALSE_ALARM = 1e-6
# Drift in ppm of a client's clock against the server's, for two clocks with an error of 20 each.
LARGEST_DRIFT_PPM = 40.0
_NEAR_SAMPLES = 1.0  # samples around the result of the search within which a client is fitted
_ITERATIONS = 8
_CLEARLY = 2.0  # a client is certainly present if it explains this many times the share that noise explains

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BurstArrivals:
    """Estimates, one element for each client; NaN for a client that was not detected."""

    delay_samples: Floats  # delay in the middle of the sync symbols; positive is late
    sigma_samples: Floats  # standard deviation of the delay by the joint bound
    power: Floats  # energy of a subcarrier on the strongest path
    cfo_rad: Floats  # rad/sample, unique up to half a turn between sync symbols; NaN for a single symbol
    snr: Floats  # linear power over the noise of a subcarrier; other paths count as noise, because the fit has one path


def estimate_burst(
    syncs: npt.ArrayLike,
    starts_samples: npt.ArrayLike,
    n_clients: int,
    num: Numerology,
    early_samples: int = 0,
    false_alarm: float = DEFAULT_FALSE_ALARM,
) -> BurstArrivals:
    """Estimate arrivals from the sync symbols (groups, symbol_samples) of a burst.

    ``starts_samples`` are the positions of the symbols in the burst. ``false_alarm`` is the probability that a silent
    client is detected in white noise.
    """
    n_clients = integer("n_clients", n_clients, 1)
    flattened = flattened_slot(syncs, num, early_samples).astype(np.complex128)
    starts = np.asarray(starts_samples)
    require(flattened.ndim == 2, "syncs", f"shape {flattened.shape[:-1]}", "one axis of symbols")
    require(starts.shape == flattened.shape[:1], "starts_samples", f"shape {starts.shape}", "one for each symbol")
    false_alarm = real("false_alarm", false_alarm, 1e-15, 0.5)
    tones_of = _tones(num, n_clients, int(starts[-1] - starts[0]), len(starts))
    columns = np.full((5, n_clients), np.nan)
    if (found := _heard(tones_of, flattened, false_alarm)) is not None:
        clients, fit, delay, sigma = found
        noise = max(float(np.mean(fit.noise)), 1e-30)
        power = np.mean(fit.amplitude.real**2 + fit.amplitude.imag**2, axis=0)
        # All symbols have the same noise power; the differences between their estimates are random.
        sigma *= np.sqrt(noise / np.maximum(fit.noise, 1e-30))[:, None]
        columns[:2, clients] = _middle(delay, sigma, starts)
        columns[2, clients] = power
        columns[3, clients] = _frequency(fit.amplitude, starts)
        columns[4, clients] = power / noise
    return BurstArrivals(*columns)


@lru_cache(maxsize=16)
def _tones(num: Numerology, n_clients: int, span_samples: int, slots: int) -> Tones:
    ways = drift_ways(1e-6 * LARGEST_DRIFT_PPM * span_samples, slots)
    return Tones(num, cyclic_shifts_samples(n_clients, num), num.fft_size // n_clients, ways)


def _heard(
    tones_of: Tones, flattened: npt.NDArray[np.complex128], false_alarm: float
) -> tuple[npt.NDArray[np.bool_], Fit, Floats, Floats] | None:
    """Return the detected clients and the fit of these alone, with delays and their standard deviations.

    First, all clients are fitted. The fit of a silent client absorbs the peak of the noise in its window, or a part of
    a neighbour's main lobe, so only clients whose energy no other client could explain are kept. Then the other clients
    are searched for in the residual, strongest first. If two neighbours explain the same energy, it belongs to the
    stronger one.
    """
    delay = tones_of.search(flattened)
    heard = np.ones(delay.shape[-1], np.bool_)
    while heard.any():
        fit, delay[:, heard], sigma = _refined(tones_of.some(heard), flattened, delay[:, heard])
        own = fit.own_energy.sum(axis=0)
        rest = float(np.sum(fit.residual.real**2 + fit.residual.imag**2))
        unsure = own <= _CLEARLY * _limit(tones_of, false_alarm, 0) * (own + rest)
        if not unsure.any():
            break
        # Only half of them are dropped at a time, because their energy then counts as noise for the others.
        heard[heard] = ~unsure | (own > np.median(own[unsure]))
    left = fit.residual if heard.any() else flattened
    while not heard.all():
        steps, energy = tones_of.largest(left)
        energy[heard] = 0
        total = max(float(np.sum(left.real**2 + left.imag**2)), 1e-30)
        stronger = (energy >= np.roll(energy, 1)) & (energy >= np.roll(energy, -1))
        more = stronger & (energy > total * _limit(tones_of, false_alarm, int(np.count_nonzero(heard))))
        if not more.any():
            break
        delay[:, more] = steps[:, more] / GRID
        heard |= more
        fit, delay[:, heard], sigma = _refined(tones_of.some(heard), flattened, delay[:, heard])
        left = fit.residual
    return (heard, fit, delay[:, heard], sigma) if heard.any() else None


def _refined(tones_of: Tones, flattened: npt.NDArray[np.complex128], delay: Floats) -> tuple[Fit, Floats, Floats]:
    edge = tones_of.window / 2  # beyond this delay a client could be mistaken for its neighbour
    low, high = (np.clip(delay + near, -edge, edge) for near in (-_NEAR_SAMPLES, _NEAR_SAMPLES))
    return refine(tones_of, flattened, delay, low, high, _ITERATIONS)


def _limit(tones_of: Tones, false_alarm: float, fitted: int) -> float:
    """Return the share that noise explains with this probability; a fitted client uses 1.5 values per slot."""
    left = len(tones_of.omega) - 1.5 * fitted
    ways, slots = (1, 1) if tones_of.drifts is None else tones_of.drifts.shape
    return peak_threshold(max(false_alarm / ways, 1e-15), tones_of.window, float(np.std(tones_of.omega)), left, slots)


def _middle(delay: Floats, sigma: Floats, starts_samples: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return delays in the middle of the symbols and their deviations, by a weighted line through (symbols, N).

    A weighted mean would be biased if a clock drifts during the burst, because the weights are measured and slightly
    uneven.
    """
    if len(delay) == 1:
        return delay[0], sigma[0]
    time = (starts_samples - starts_samples.mean())[:, None] / np.ptp(starts_samples)
    weight = 1 / sigma**2
    s0, s1, s2 = (np.sum(weight * time**i, axis=0) for i in range(3))
    determinant = s0 * s2 - s1**2
    value: Floats = (s2 * np.sum(weight * delay, axis=0) - s1 * np.sum(weight * time * delay, axis=0)) / determinant
    return value, np.sqrt(s2 / determinant)


def _frequency(amplitude: npt.NDArray[np.complex128], starts_samples: npt.NDArray[np.int64]) -> Floats:
    """Return frequencies (N,) in rad/sample from amplitudes (symbols, N) at these times; NaN for one symbol.

    A frequency is the slope of the phase: first the mean rotation from one symbol to the next, then a straight line
    through the remaining phases.
    """
    if len(amplitude) < 2:
        return np.full(amplitude.shape[-1], np.nan)
    time = starts_samples[:, None].astype(np.float64)
    coarse = np.angle(np.sum(amplitude[1:] * amplitude[:-1].conj(), axis=0)) / np.mean(np.diff(starts_samples))
    left = amplitude * np.exp(-1j * coarse * time)
    phase = np.angle(left * np.sum(left, axis=0).conj())
    weight = np.maximum(np.abs(amplitude) ** 2, 1e-300)
    about = time - np.sum(weight * time, axis=0) / np.sum(weight, axis=0)
    fine: Floats = np.sum(weight * about * phase, axis=0) / np.sum(weight * about**2, axis=0)
    return coarse + fine
