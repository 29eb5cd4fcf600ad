# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the fading between a client and the server: a complex gain or a few multipath taps for each burst."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.checks import real, require

Fading = Literal["none", "rayleigh", "rician"]
FADINGS: tuple[str, ...] = get_args(Fading)


@dataclass(frozen=True)
class DelayProfile:
    """A tapped delay line with mean powers at given delays. The powers are normalised to sum 1 when used."""

    delays_seconds: tuple[float, ...]
    powers_db: tuple[float, ...]

    def __post_init__(self) -> None:
        n = len(self.delays_seconds)
        require(n >= 1, "delays_seconds", "no delay", "at least one delay")
        require(len(self.powers_db) == n, "powers_db", f"{len(self.powers_db)} values", f"as many as the {n} delays")
        for delay in self.delays_seconds:
            real("delays_seconds", delay, 0.0)
        for power in self.powers_db:
            real("powers_db", power)

    def powers(self) -> npt.NDArray[np.float64]:
        """Return the mean powers of the paths, normalised to sum 1."""
        linear = 10 ** (np.array(self.powers_db) / 10)
        return linear / linear.sum()

    def rms_delay_spread_seconds(self) -> float:
        """Return the root-mean-square delay spread in seconds."""
        powers, delays = self.powers(), np.array(self.delays_seconds)
        return float(np.sqrt(powers @ (delays - powers @ delays) ** 2))


# epa, eva and etu are extended pedestrian A, vehicular A and typical urban from 3GPP TS 36.104, annex B.2.
PROFILES: dict[str, DelayProfile] = {
    "flat": DelayProfile((0.0,), (0.0,)),
    "indoor": DelayProfile(tuple(50e-9 * i for i in range(6)), tuple(-10 * np.log10(np.e) * i for i in range(6))),
    "epa": DelayProfile(
        (0.0, 30e-9, 70e-9, 90e-9, 110e-9, 190e-9, 410e-9), (0.0, -1.0, -2.0, -3.0, -8.0, -17.2, -20.8)
    ),
    "eva": DelayProfile(
        (0.0, 30e-9, 150e-9, 310e-9, 370e-9, 710e-9, 1090e-9, 1730e-9, 2510e-9),
        (0.0, -1.5, -1.4, -3.6, -0.6, -9.1, -7.0, -12.0, -16.9),
    ),
    "etu": DelayProfile(
        (0.0, 50e-9, 120e-9, 200e-9, 230e-9, 500e-9, 1600e-9, 2300e-9, 5000e-9),
        (-1.0, -1.0, -1.0, 0.0, 0.0, 0.0, -3.0, -5.0, -7.0),
    ),
}


def gains(
    shape: tuple[int, ...], fading: str, rng: np.random.Generator, rician_k_db: float = 10.0
) -> npt.NDArray[np.complex64]:
    """Return complex gains of mean power 1: all ones, Rayleigh, or Rician with a line of sight of random phase."""
    require(fading in FADINGS, "fading", repr(fading), f"one of {', '.join(FADINGS)}")
    if fading == "none":
        return np.ones(shape, np.complex64)
    scattered = complex_gaussian(shape, 1.0, rng)
    if fading == "rayleigh":
        return scattered
    k = 10 ** (real("rician_k_db", rician_k_db) / 10)
    sight = np.exp(2j * np.pi * rng.random(shape))
    return (np.sqrt(k / (k + 1)) * sight + np.sqrt(1 / (k + 1)) * scattered).astype(np.complex64)


def impulse_responses(
    n: int,
    profile: DelayProfile,
    fading: str,
    sample_rate_hz: float,
    rng: np.random.Generator,
    rician_k_db: float = 10.0,
) -> npt.NDArray[np.complex64]:
    """Return n independent impulse responses (n, taps) of mean power 1; tap 0 is the profile's delay 0.

    Each path falls on the nearest sample, and paths on the same sample form one tap. With Rician fading the first path
    holds the line of sight.
    """
    sample_rate_hz = real("sample_rate_hz", sample_rate_hz, 0.0, open_low=True)
    length, echoes, amplitudes = _echoes(profile, sample_rate_hz)
    drawn = gains((n, len(echoes)), "rayleigh" if fading == "rician" else fading, rng)
    if fading == "rician":
        drawn[:, :1] = gains((n, 1), fading, rng, rician_k_db)
    taps = np.zeros((n, length), np.complex64)
    taps[:, echoes] = drawn * amplitudes
    return taps


def tap_powers(profile: DelayProfile, sample_rate_hz: float) -> npt.NDArray[np.float64]:
    """Return the mean powers (taps,) of the impulse response at this rate; paths on the same sample form one tap."""
    delays = np.rint(np.array(profile.delays_seconds) * sample_rate_hz).astype(np.int64)
    powers: npt.NDArray[np.float64] = np.bincount(delays, profile.powers()).astype(np.float64)
    return powers


@lru_cache(maxsize=64)
def _echoes(profile: DelayProfile, sample_rate_hz: float) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the number of taps, the indices of the non-zero taps, and the square roots of their mean powers."""
    powers = tap_powers(profile, sample_rate_hz)
    echoes = np.flatnonzero(powers)
    return len(powers), echoes, np.sqrt(powers[echoes]).astype(np.float32)
