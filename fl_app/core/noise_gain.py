# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute in closed form how the noise of old values adds up, for policies whose low entries have a known life."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.stats

from fl_app.core.catalog import POLICIES
from oac_blocks.dsp.checks import integer, real, require

Floats = npt.NDArray[np.float64]

KNOWN_POLICIES = ("fair-k", "round-robin", "top-rand")  # policies whose low entries have a known life
_GRADIENTS = 20_001  # points of the integral over the gradient's distribution


@dataclass(frozen=True)
class Setting:
    """Hold the parameters on which the accumulation of noise depends.

    Attributes
    ----------
    s : float
        Size of the gradient's entries, Student-t(3) times s, relative to the noise of a received entry.
    rho : float
        Share of the entries in a round, k/d.
    k_m_ratio : float
        k_M/k, of policies that have it.
    rounds : int
        The horizon T; all entries are sent in the first round.
    """

    s: float
    rho: float = 0.1
    k_m_ratio: float = 0.75
    rounds: int = 600

    def __post_init__(self) -> None:
        real("s", self.s, 0.0)
        real("rho", self.rho, 0.0, 1.0, open_low=True)
        real("k_m_ratio", self.k_m_ratio, 0.0, 1.0)
        integer("rounds", self.rounds, 1)


@dataclass(frozen=True)
class NoiseGain:
    """Hold the noise gain by its two causes.

    Attributes
    ----------
    coherent : float
        Part of the noise that cancels gradients and never averages out; it grows with the horizon.
    scattered : float
        Part that is independent from draw to draw.
    """

    coherent: float
    scattered: float

    @property
    def total(self) -> float:
        """Return the noise gain."""
        return self.coherent + self.scattered


def noise_gain(policy: str, setting: Setting) -> NoiseGain:
    """Return the noise gain of FAIR-k, round robin or TopRand: one threshold, one integral over the gradient.

    An entry with gradient G draws noise z. If |G + z| exceeds a threshold, the entry is among the largest and draws
    again in the next round. Otherwise it keeps its noise for x rounds: x = (d - k_M) / k_A for FAIR-k, geometric with
    this mean for TopRand. The threshold is the one at which the share k_M / d of all entries is above it. The draws are
    a renewal process. Its mean m(G) = E[x z] / E[x] adds up to a power of T m^2 per round, and the rest to the power
    E[x^2 (z - m)^2] / E[x].

    Parameters
    ----------
    policy : {"fair-k", "round-robin", "top-rand"}
        Policies whose low entries have a known life. Top-k never refreshes them and has no steady state.
    setting : Setting
    """
    name, s, rho = POLICIES.canonical(policy), setting.s, setting.rho
    require(name in KNOWN_POLICIES, "policy", policy, f"one of {', '.join(KNOWN_POLICIES)}")
    by_magnitude = 0.0 if name == "round-robin" else rho * setting.k_m_ratio
    allowed = "below 1: without the other half, low entries stay for ever"
    require(by_magnitude < rho, "k_m_ratio", setting.k_m_ratio, allowed)
    life = (1 - by_magnitude) / (rho - by_magnitude)
    life_square = life**2 if name != "top-rand" else life * (2 * life - 1)
    middle = (np.arange(_GRADIENTS) + 0.5) / _GRADIENTS
    gradient = s * scipy.stats.t.ppf(middle, 3) if s else np.zeros(1)

    def share_above(threshold: float) -> float:
        above = 1 - _low_moments(gradient, threshold)[0]
        return float(np.mean(above / (above + (1 - above) * life)))

    threshold = np.inf
    if by_magnitude:
        most = 10 + float(np.abs(gradient).max())
        threshold = scipy.optimize.brentq(lambda x: share_above(x) - by_magnitude, 0.0, most)
    low, first, second = _low_moments(gradient, threshold)
    duration = (1 - low) + low * life
    mean = (life - 1) * first / duration  # E[z] = 0, so E[z; high] = -E[z; low]
    high_square = (1 - second) + 2 * mean * first + mean**2 * (1 - low)
    low_square = second - 2 * mean * first + mean**2 * low
    scatter = (high_square + life_square * low_square) / duration
    return NoiseGain(float(np.mean(setting.rounds * mean**2)), float(np.mean(scatter)))


def _low_moments(gradient: Floats, threshold: float) -> tuple[Floats, Floats, Floats]:
    """Return P(low), E[z; low] and E[z^2; low] for unit Gaussian z, where low means |gradient + z| <= threshold."""
    if np.isinf(threshold):
        ones = np.ones_like(gradient)
        return ones, 0 * ones, ones
    upper, lower = threshold - gradient, -threshold - gradient
    density = scipy.stats.norm.pdf
    low = scipy.stats.norm.cdf(upper) - scipy.stats.norm.cdf(lower)
    first = density(lower) - density(upper)
    return low, first, low + lower * density(lower) - upper * density(upper)
