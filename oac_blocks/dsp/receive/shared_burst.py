# SPDX-License-Identifier: GPL-3.0-or-later
"""All clients, from all sync symbols of a burst together: when, how strong, at which frequency, and heard at all?

The clock of a client may run through the burst, so its delay differs from one sync symbol to the next, steadily. It is
searched with the energy of all of them, fitted in each, and averaged. Clients that are not heard would still take noise
out of what is left for the others, so only those are in the fit that are heard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive.peak_threshold import peak_threshold
from oac_blocks.dsp.receive.shared_fit import GRID, Fit, Tones, drift_ways, refine
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, flattened_slot

DEFAULT_FALSE_ALARM = 1e-6
LARGEST_DRIFT_PPM = 40.0  # of a client's clock against the server's, each of them off by 20
_NEAR_SAMPLES = 1.0  # of where the search found it a client is fitted
_ITERATIONS = 8
_CLEARLY = 2.0  # heard: that many times what noise explains

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BurstArrivals:
    """One element for each client, NaN for those that were not heard."""

    delay_samples: Floats  # in the middle of the sync symbols; positive is late
    sigma_samples: Floats  # of it, by the joint bound
    power: Floats  # energy of a subcarrier, of the strongest path
    cfo_rad: Floats  # rad/sample, unique up to half a turn between sync symbols; NaN for a single one
    snr: Floats  # linear: power over the noise of a subcarrier; echoes count as noise, since the fit has one path


def estimate_burst(
    syncs: npt.ArrayLike,
    starts_samples: npt.ArrayLike,
    n_clients: int,
    num: Numerology,
    early_samples: int = 0,
    false_alarm: float = DEFAULT_FALSE_ALARM,
) -> BurstArrivals:
    """From the sync symbols (groups, symbol_samples) of a burst that begin at these samples of it.

    ``false_alarm`` is the probability that a silent client is heard in white noise.
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
        # All symbols have the same noise; how much of it each shows is chance.
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
    """Which clients explain more than noise would, and the fit of these alone, with delays and their deviations.

    All are fitted first. A silent client's fit takes its window's peak out of the noise, or a part of a neighbour on
    whose lobe it stands, so only those stay that nobody else could stand for. Then the others are looked for in what
    these leave, strongest first: where two neighbours hear the same, it is the stronger one's.
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
        # Half of them at a time: what they leave counts as noise, and may not drown all the others at once.
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
    edge = tones_of.window / 2  # beyond it a client would stand for its neighbour
    low, high = (np.clip(delay + near, -edge, edge) for near in (-_NEAR_SAMPLES, _NEAR_SAMPLES))
    return refine(tones_of, flattened, delay, low, high, _ITERATIONS)


def _limit(tones_of: Tones, false_alarm: float, fitted: int) -> float:
    """The share that noise explains with this probability; each client fitted took 1.5 complex values a slot."""
    left = len(tones_of.omega) - 1.5 * fitted
    ways, slots = (1, 1) if tones_of.drifts is None else tones_of.drifts.shape
    return peak_threshold(max(false_alarm / ways, 1e-15), tones_of.window, float(np.std(tones_of.omega)), left, slots)


def _middle(delay: Floats, sigma: Floats, starts_samples: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Delays in the middle of the symbols and their standard deviations, by a weighted line through (symbols, N).

    A weighted mean would be off where a clock runs through the burst: weights are measured, and so a little uneven.
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
    """Frequencies (N,) in rad/sample from amplitudes (symbols, N) at these times; NaN for one symbol.

    They are the phases' slopes: the mean turn from one symbol to the next first, then a straight line through what it
    leaves of the phases.
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
