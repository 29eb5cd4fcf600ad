# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the theory's parts together for a config: the terms of Theorem 1 from measured constants."""

from __future__ import annotations

import math
from typing import Any

from fl_app.air.settings import AirSettings
from fl_app.config import ConfigError, Settings
from fl_app.theory.aou import limit
from fl_app.theory.convergence import ProblemConstants, bound_terms, bound_terms_for_many_clients, rate_limits
from fl_app.theory.exchange import Exchange
from fl_app.theory.trajectory import TrajectoryConstants


def mean_age_of(settings: Settings, d: int, exchanged: float) -> float:
    """Return the mean age of update by Lemma 1's limit, if a round exchanges this share of the magnitude set."""
    chosen = settings.selection
    k = chosen.entries(d)
    if k > d / 2:
        raise ConfigError(f"[selection] rho must be at most 0.5 for Lemma 1, got {k} of {d} entries")
    k_m = {"round-robin": 0, "top-k": k}.get(chosen.policy, round(chosen.k_m_ratio * k))
    return limit(Exchange(d, k, k_m, min(exchanged * k_m, d - k_m))).mean


def noise_std_of(air: AirSettings, entry_rms: float) -> float:
    """Return the standard deviation of the channel's noise on an entry of the clients' sum."""
    if not air.scheme.coherent:
        raise ConfigError(f"Theorem 1 is about analog aggregation, not {air.mode}: give --set air.mode=analog")
    if air.noise_std is not None:
        return air.noise_std
    return 0.0 if air.snr_db is None else entry_rms * 10 ** (-air.snr_db / 20)


def problem_of(
    settings: Settings, constants: TrajectoryConstants, mean_age: float, noise_std: float
) -> ProblemConstants:
    """Return the constants of Theorem 1 for a config; ``noise_std`` is that of the channel, on the clients' sum."""
    return ProblemConstants(
        d=constants.entries,
        n_clients=settings.clients.n,
        local_steps=settings.clients.H,
        rounds=settings.run.rounds,
        eta=settings.server.lr,
        eta_local=settings.clients.lr,
        mean_age=mean_age,
        smoothness=math.sqrt(constants.global_squared),
        heterogeneity_smoothness=math.sqrt(constants.heterogeneity_squared),
        gradient_bound=constants.gradient_bound,
        sgd_std=constants.sgd_std,
        heterogeneity_std=constants.heterogeneity_std,
        noise_std=noise_std,
        gain_std=0.0 if settings.air.fading == "none" else math.sqrt(4 / math.pi - 1),
        first_gap=constants.loss,
    )


def planned(settings: Settings, constants: TrajectoryConstants, exchanged: float) -> ProblemConstants:
    """Return the constants of Theorem 1 for a config whose rounds exchange this share of the magnitude set."""
    mean_age = mean_age_of(settings, constants.entries, exchanged)
    return problem_of(settings, constants, mean_age, noise_std_of(settings.air, constants.entry_rms))


def bound_of(given: ProblemConstants) -> dict[str, Any]:
    """Return the terms of Theorem 1 as JSON values: all terms, the largest, rates and their limits."""
    terms = bound_terms(given)
    return {
        "terms": terms,
        "many_clients": bound_terms_for_many_clients(given),
        "dominates": max(terms, key=lambda name: terms[name]),
        "mean_age": given.mean_age,
        "rates": {"eta": given.eta, "eta_local": given.eta_local},
        "rate_limits": rate_limits(given),
    }
