# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what staleness does to noise: an entry's noise is applied again in every round until the entry is refreshed.

Let one entry be refreshed at intervals x_1, x_2, ... that sum up to T rounds, each time with new noise of unit power.
The noise of the sum over the rounds is sum_j x_j z_j, of power sum_j x_j^2. Within an interval the ages 0 to x - 1 sum
up to x (x - 1) / 2, so sum_j x_j^2 = T + 2 (sum of the ages). Dense aggregation has the power T. Hence, exactly and for
every horizon:

    noise gain = 1 + 2 (mean age of update over entries and rounds),

provided that the selection does not look at the noise. A policy that selects by magnitude does look. Without a gradient
it draws large noise again until it is small, which lowers the gain. With a gradient it stops at the draws whose noise
cancels the gradient, because they look small; this noise has a mean, which adds up over all rounds.
``fl_app.core.noise_gain`` has the law in closed form for FAIR-k, round robin and TopRand, and `simulate` plays every
policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_app.core.noise_gain import Setting
from fl_app.core.selection import make_policy, update_age
from oac_blocks.dsp.checks import integer, real


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


def blind_noise_gain(mean_age: float) -> float:
    """Return the noise gain of a selection that does not look at the noise."""
    return 1 + 2 * real("mean_age", mean_age, 0.0)


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
