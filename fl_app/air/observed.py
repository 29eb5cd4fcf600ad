# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the last round of an air for displays: the clients' radios, the received spectrum, the energies of tones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.fft

Floats = npt.NDArray[np.float64]

MOST_TONES = 400  # entries whose two energies are kept
MOST_SPECTRUM_SAMPLES = 1 << 16  # samples from which a spectrum is computed
_LEAST_POWER = 1e-12  # power that stands for silence in dB


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Observation:
    """Hold what an air knows of its last round besides the received values. An empty array means "not measured".

    Attributes
    ----------
    clients : tuple of int
        Numbers of the clients that the next four describe.
    states : tuple of str
        State of each client's radio, in one word or two.
    offset_samples, power_db, cfo_hz : float arrays of shape (clients,)
        Sample offset (positive if late), received power and carrier frequency offset; NaN if unknown.
    spectrum_db : float array of shape (bins,)
        Mean power of the received samples for each frequency, DC in the middle, for ``sample_rate_hz``.
    energies : float array of shape (2, entries)
        Energies for and against some of the round's entries, the mean over the copies.
    """

    clients: tuple[int, ...] = ()
    states: tuple[str, ...] = ()
    offset_samples: Floats = field(default_factory=_nothing)
    power_db: Floats = field(default_factory=_nothing)
    cfo_hz: Floats = field(default_factory=_nothing)
    spectrum_db: Floats = field(default_factory=_nothing)
    sample_rate_hz: float = math.nan
    energies: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty((2, 0), np.float32))


def radio_observation(
    states: Sequence[str], offset_samples: Floats, power_db: Floats, cfo_rad: Floats, sample_rate_hz: float
) -> Observation:
    """Describe the radios of clients 0 to n - 1 as a calibration loop measures them; ``cfo_rad`` is in rad/sample."""
    cfo_hz = np.asarray(cfo_rad, np.float64) * sample_rate_hz / (2 * math.pi)
    return Observation(
        clients=tuple(range(len(states))),
        states=tuple(states),
        offset_samples=np.asarray(offset_samples, np.float64),
        power_db=np.asarray(power_db, np.float64),
        cfo_hz=cfo_hz,
        sample_rate_hz=sample_rate_hz,
    )


def spectrum_db(samples: npt.NDArray[np.complex64], bins: int) -> Floats:
    """Return the power spectrum of samples (n,) in dB, DC in the middle: Welch's mean over Hann windows, half apart.

    The powers of all bins add up to the mean power of the samples.
    """
    some = samples[:MOST_SPECTRUM_SAMPLES]
    if len(some) < bins:
        return np.empty(0)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(bins) / bins)
    rows = np.lib.stride_tricks.sliding_window_view(some, bins)[:: bins // 2]
    power = np.mean(np.abs(scipy.fft.fft(rows * window, axis=-1)) ** 2, axis=0) / (bins * np.sum(window**2))
    return in_db(scipy.fft.fftshift(power))


def in_db(power: npt.ArrayLike) -> Floats:
    """Return powers in dB; no power at all is -120 dB."""
    decibels: Floats = 10 * np.log10(np.maximum(np.asarray(power, np.float64), _LEAST_POWER))
    return decibels
