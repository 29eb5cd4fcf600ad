# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what staleness does to noise: an entry's noise is applied again in every round until the entry is refreshed.

Let one entry be refreshed at intervals x_1, x_2, ... that sum up to T rounds, each time with new noise of unit power.
The noise of the sum over the rounds is sum_j x_j z_j, of power sum_j x_j^2. Within an interval the ages 0 to x - 1 sum
up to x (x - 1) / 2, so sum_j x_j^2 = T + 2 (sum of the ages). Dense aggregation has the power T. Hence, exactly and for
every horizon:

    noise gain = 1 + 2 (mean age of update over entries and rounds),

provided that the selection does not look at the noise. A policy that selects by magnitude does look. Without a gradient
it draws large noise again until it is small, which lowers the gain. With a gradient it stops at the draws whose noise
cancels the gradient, because they look small; this noise has a mean, which adds up over all rounds. `noise_gain` has
the law in closed form for FAIR-k, round robin and TopRand, and `simulate` plays every policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.stats

from fl_app.core.selection import canonical_name, make_policy, update_age
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
class Accumulated:
    """Hold what a policy makes of gradient and noise over a horizon.

    Attributes
    ----------
    noise_gain : float
        Power of the noise in the sum over the rounds, relative to dense aggregation.
    mean_age : float
        Mean age of update over entries and rounds.
    blind_gain : float
        1 + 2 mean_age: the noise gain of a selection with the same ages that does not look at the noise.
    stale_error : float
        Mean square of the difference between the gradient and its stale copy, in units of the gradient's power; 0 for
        a constant gradient.
    """

    noise_gain: float
    mean_age: float
    blind_gain: float
    stale_error: float


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


def blind_noise_gain(mean_age: float) -> float:
    """Return the noise gain of a selection that does not look at the noise."""
    return 1 + 2 * real("mean_age", mean_age, 0.0)


def noise_gain(policy: str, setting: Setting) -> NoiseGain:
    """Return the noise gain of ``simulate`` in closed form: one threshold, one integral over the gradient.

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
    name, s, rho = canonical_name(policy), setting.s, setting.rho
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


def stale_error(mean_age: float, change_power: float) -> float:
    """Return the mean square error of stale entries whose gradient walks at random by ``change_power`` per round.

    After tau rounds the gradient has moved by tau independent steps, so the error is ``change_power * E[tau]``.
    """
    return real("change_power", change_power, 0.0) * real("mean_age", mean_age, 0.0)


def simulate(policy: str, setting: Setting, *, d: int = 20_000, walk: float = 0.0, seed: int = 1) -> Accumulated:
    """Play Algorithm 1 with a known gradient and unit noise, and measure what accumulates.

    Parameters
    ----------
    policy : str
        Name of a policy.
    setting : Setting
    d : int
        Number of entries.
    walk : float
        The gradient walks at random: in each round it changes by this share of s times new Student-t(3) entries, and
        is scaled so that its power stays. 0 leaves it constant.
    seed : int
        Seed of gradient, noise and ties.
    """
    s, rounds = setting.s, setting.rounds
    real("walk", walk, 0.0, 1.0)
    rng = np.random.default_rng(integer("seed", seed, 0))
    k = max(1, round(setting.rho * d))
    k_m = round(setting.k_m_ratio * k)
    chooser = make_policy(policy, d, k, k_m=k_m, rng=rng)
    gradient = s * rng.standard_t(3, d)
    noise, stale, total = np.zeros(d), np.zeros(d), np.zeros(d)
    age, selected = np.zeros(d, np.int32), np.arange(d)
    ages = errors = 0.0
    for t in range(rounds):
        if walk and t:
            gradient = np.sqrt(1 - walk**2) * gradient + walk * s * rng.standard_t(3, d)
        noise[selected] = rng.standard_normal(selected.size)
        stale[selected] = gradient[selected]
        total += noise
        age = update_age(age, selected)
        ages += float(age.mean())
        errors += float(np.mean((gradient - stale) ** 2))
        selected = chooser.next(stale + noise, age)
    mean_age = ages / rounds
    power = float(np.mean(gradient**2))
    return Accumulated(
        noise_gain=float(np.mean(total**2)) / rounds,
        mean_age=mean_age,
        blind_gain=blind_noise_gain(mean_age),
        stale_error=errors / rounds / power if power else 0.0,
    )
