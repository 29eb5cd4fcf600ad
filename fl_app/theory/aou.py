# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the distribution of the age of update (AoU) under FAIR-k: Lemma 1, its limit for large models, a simulation.

All three describe the age tau after a round: 0 for an entry that was just refreshed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats

from fl_app.theory.exchange import Exchange
from oac_blocks.dsp.checks import integer, require

Floats = npt.NDArray[np.float64]

MOST_TRANSITIONS = 100_000_000  # largest transition matrix of Lemma 1, in numbers of 8 bytes
MOST_SIMULATED = 10_000_000  # entries of a simulation
LONGEST_PMF = 1_000_000  # ages that a distribution lists
_LEAST_TAIL = 1e-12  # probability at which a distribution without a largest age is cut


@dataclass(frozen=True, eq=False)
class AgeDistribution:
    """Hold the distribution of the AoU.

    Attributes
    ----------
    pmf : float64 array
        Probability of each age, from 0 on.
    mean : float
        Mean age in rounds.
    max : float
        Largest age with a probability above zero; infinite if nothing is selected by age.
    """

    pmf: Floats
    mean: float
    max: float

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as JSON values; an infinite maximum is None."""
        return {
            "pmf": self.pmf.tolist(),
            "mean": self.mean,
            "max": int(self.max) if math.isfinite(self.max) else None,
        }


def total_variation(a: AgeDistribution, b: AgeDistribution) -> float:
    """Return half the summed difference of two distributions: 0 if they agree, 1 if they have nothing in common."""
    size = max(len(a.pmf), len(b.pmf))
    padded = [np.pad(one.pmf, (0, size - len(one.pmf))) for one in (a, b)]
    return float(0.5 * np.abs(padded[0] - padded[1]).sum())


def lemma1(exchange: Exchange) -> AgeDistribution:
    """Return the distribution by the Markov chain of Lemma 1.

    The chain follows one entry through the positions 1 to d in the order of age. From a stale position i the entry
    enters the magnitude set with probability p_2. Otherwise it moves back by k_A + l positions, where l of the d - i
    older entries enter the magnitude set; l is binomial, at most k_0, and normalised (footnote of the paper). It is
    selected by its age if fewer than k_A older entries remain, that is if i + k_A + l > d. (The paper's sums count the
    case i + k_A + l = d twice; there the entry is the oldest that is not selected.)

    All stale entries start at position k + 1 and only move back. So the stationary vector follows from one forward
    pass, and P(tau = l) is the probability of a start times the share that is still stale l - 1 rounds later. By
    stationarity this is the lemma's sum over matrix powers.

    Raises
    ------
    ValueError
        If the model is so large that the chain does not fit into memory: use :func:`limit`.
    """
    if not exchange.k_a:
        return limit(exchange)  # exact here: an entry stays stale with probability 1 - p_2 in each round
    steps = _steps_back(exchange)
    d, k, k_a, p2 = exchange.d, exchange.k, exchange.k_a, exchange.p2
    stale = np.zeros(d - k)  # probability of positions k + 1 to d, of an entry that started l rounds ago
    stale[0] = 1.0
    survivors = [1.0]
    while survivors[-1] > _LEAST_TAIL and len(survivors) <= d:
        moved = np.zeros(d - k)
        for l_back, share in enumerate(steps.T):
            by = k_a + l_back
            if by < len(moved):
                moved[by:] += stale[:-by] * share[:-by]
        stale = (1 - p2) * moved
        survivors.append(float(stale.sum()))
    lives = np.array(survivors[:-1] if survivors[-1] <= _LEAST_TAIL else survivors)
    # A start has probability s = pi_A (1 - p_2) + pi_M p_1. The rest of the vector sums up to 1 with it.
    share_m = exchange.k_m / d
    by_age = 1 - p2 * lives.sum()  # share of stale entries that are refreshed for their age, not their magnitude
    # pi_A = s * by_age and pi_A + pi_M + s * sum(lives) = 1
    start = (1 - share_m) / (by_age + lives.sum())
    pmf = np.concatenate(([1 - start * lives.sum()], start * lives))
    return AgeDistribution(pmf, float(pmf @ np.arange(len(pmf))), len(pmf) - 1)


def fits(exchange: Exchange) -> bool:
    """Return whether the chain of Lemma 1 fits into memory."""
    return not exchange.k_a or (exchange.d - exchange.k) * (math.ceil(exchange.k0) + 1) <= MOST_TRANSITIONS


def _steps_back(exchange: Exchange) -> Floats:
    """Return P(l older entries enter the magnitude set), (d - k, k_0 + 1), for each stale position."""
    most = math.ceil(exchange.k0)
    require(
        fits(exchange),
        "d and k0",
        f"{exchange.d:,} and {exchange.k0:g}",
        f"small enough for Lemma 1 ({MOST_TRANSITIONS:,} transitions); the limit for large d needs no matrix",
    )
    older = np.arange(exchange.d - exchange.k - 1, -1, -1)[:, None]
    probability = scipy.stats.binom.pmf(np.arange(most + 1), older, exchange.p2)
    return probability / probability.sum(axis=1, keepdims=True)


def limit(exchange: Exchange) -> AgeDistribution:
    """Return the distribution for d to infinity at fixed ratios: a truncated geometric law.

    In each round the share c = (k_0 + k_A (1 - p_2)) / d of all entries reaches age 1, and a share 1 - p_2 of every
    age survives the round, so P(tau = l) = c (1 - p_2)^(l - 1). The age half removes the oldest entries; the law ends
    at the age at which the probabilities sum up to 1. Without an exchange (p_2 = 0) it is uniform; with k_A = 0 it has
    no end.
    """
    c, p2, left = exchange.stale_inflow, exchange.p2, 1 - exchange.k / exchange.d
    if not exchange.k_a:
        ages = np.arange(1, min(LONGEST_PMF, math.ceil(math.log(_LEAST_TAIL) / math.log1p(-p2))) + 1)
        pmf = np.concatenate(([1 - left], c * np.exp((ages - 1) * math.log1p(-p2))))
        return AgeDistribution(pmf, c / p2**2, math.inf)
    longest = _ages_that_fit(c, p2, left)
    full = c * _geometric_sum(p2, longest - 1)
    last = left - full
    mean = c * _geometric_mean_sum(p2, longest - 1) + longest * last
    ages = np.arange(1, min(longest, LONGEST_PMF))
    pmf = np.concatenate(
        ([1 - left], c * np.exp((ages - 1) * math.log1p(-p2)), [last] if longest <= LONGEST_PMF else [])
    )
    return AgeDistribution(pmf, mean, longest)


def _ages_that_fit(c: float, p2: float, mass: float) -> int:
    """Return the smallest n for which c (1 + r + ... + r^(n-1)) reaches the mass, with r = 1 - p_2."""
    ratio = mass / c
    n = ratio if p2 == 0 else math.log1p(-min(ratio * p2, 1 - 1e-16)) / math.log1p(-p2)
    return max(1, math.ceil(n - 1e-9))


def _geometric_sum(p2: float, n: int) -> float:
    """Return the sum of r^(l - 1) for l = 1 to n, r = 1 - p_2."""
    return float(n) if p2 == 0 else -math.expm1(n * math.log1p(-p2)) / p2


def _geometric_mean_sum(p2: float, n: int) -> float:
    """Return the sum of l r^(l - 1) for l = 1 to n."""
    if p2 * n < 1e-6:
        return n * (n + 1) / 2 - p2 * (n - 1) * n * (n + 1) / 3  # the first two terms of the series in p_2
    tail = math.exp(n * math.log1p(-p2))
    return (1 - tail * (1 + n * p2)) / p2**2


def simulate(exchange: Exchange, rounds: int = 5000, seed: int = 1) -> AgeDistribution:
    """Return the ages of all entries over ``rounds`` rounds of the exchange process, after it has settled.

    Entries of the same age are selected at random. A fractional k_0 is drawn in each round, with this mean.
    """
    d, k_m, k_a = exchange.d, exchange.k_m, exchange.k_a
    require(d <= MOST_SIMULATED, "d", f"{d:,}", f"at most {MOST_SIMULATED:,} for a simulation")
    rounds, rng = integer("rounds", rounds, 1), np.random.default_rng(integer("seed", seed, 0))
    settle = 3 * int(min(limit(exchange).max, 1000)) + 10
    order = rng.permutation(d)  # the first k_m entries are the magnitude set
    age = np.zeros(d, np.int64)
    counts = np.zeros(1, np.int64)
    for t in range(settle + rounds):
        swaps = int(exchange.k0) + (rng.random() < exchange.k0 % 1)
        inside, outside = rng.choice(k_m, swaps, replace=False), rng.choice(d - k_m, swaps, replace=False) + k_m
        order[inside], order[outside] = order[outside], order[inside]
        age += 1
        age[order[:k_m]] = 0
        rest = order[k_m:]
        if k_a:
            # The random part is below 1: it decides among equal ages only.
            oldest = np.argpartition(age[rest] + rng.random(d - k_m), d - k_m - k_a)[d - k_m - k_a :]
            age[rest[oldest]] = 0
        if t >= settle:
            seen = np.bincount(age, minlength=len(counts))
            seen[: len(counts)] += counts
            counts = seen
    pmf = counts / counts.sum()
    return AgeDistribution(pmf, float(pmf @ np.arange(len(pmf))), len(pmf) - 1)
