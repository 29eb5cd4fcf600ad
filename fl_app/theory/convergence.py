# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the terms of Theorem 1, the bound on the gradient norm that training reaches under FAIR-k.

The theorem is an order of magnitude: it names each term up to a constant that does not depend on the parameters. So
the terms are compared with each other and over parameters, and their sum is no guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from oac_blocks.dsp.checks import integer, real


@dataclass(frozen=True)
class ProblemConstants:
    """Hold the constants of Theorem 1, in the paper's notation.

    Attributes
    ----------
    d : int
        Number of entries of the model.
    n_clients : int
        Number of clients, N.
    local_steps : int
        Local SGD steps of a round, H.
    rounds : int
        Number of rounds, T.
    eta, eta_local : float
        Global and local learning rate.
    mean_age : float
        Mean age of update, E[tau].
    smoothness : float
        Lipschitz constant of the global gradient, L_g.
    heterogeneity_smoothness : float
        Pseudo-Lipschitz constant of Assumption 2, L_h.
    gradient_bound : float
        Bound G on the norm of a stochastic gradient.
    sgd_std : float
        Standard deviation sigma_s of a stochastic gradient.
    heterogeneity_std : float
        Bound sigma_g on the distance of a client's gradient from the global one.
    noise_std : float
        Standard deviation sigma_z of the channel's noise on an entry of the clients' sum.
    mean_gain, gain_std : float
        Mean mu_c and standard deviation sigma_c of the fading.
    first_gap : float
        Loss of the first model above the least loss, f(w_0) - f(w*).
    """

    d: int
    n_clients: int
    local_steps: int
    rounds: int
    eta: float
    eta_local: float
    mean_age: float
    smoothness: float
    heterogeneity_smoothness: float
    gradient_bound: float
    sgd_std: float
    heterogeneity_std: float
    noise_std: float
    mean_gain: float = 1.0
    gain_std: float = math.sqrt(4 / math.pi - 1)  # Rayleigh fading of mean 1
    first_gap: float = 1.0

    def __post_init__(self) -> None:
        for name in ("d", "n_clients", "local_steps", "rounds"):
            integer(name, getattr(self, name), 1)
        for name in ("eta", "eta_local", "smoothness", "mean_gain"):
            real(name, getattr(self, name), 0.0, open_low=True)
        for field in fields(self):
            if field.type in ("float", float):
                real(field.name, getattr(self, field.name), 0.0)

    @property
    def gain_power(self) -> float:
        """Return the mean square of the fading, mu_c^2 + sigma_c^2."""
        return self.mean_gain**2 + self.gain_std**2


def bound_terms(given: ProblemConstants) -> dict[str, float]:
    """Return the six terms of Theorem 1 by what causes them; their order is the paper's."""
    c, steps, clients = given, given.local_steps, given.n_clients
    channel_noise = c.d * c.noise_std**2 / clients**2
    sent = c.gradient_bound**2 * steps**2 * (1 + c.gain_power)
    return {
        "first loss": c.first_gap / (c.eta * c.mean_gain * steps * c.rounds),
        "channel noise": c.eta * c.smoothness * channel_noise / (c.mean_gain * steps),
        "stochastic gradients": c.eta * c.smoothness * c.sgd_std**2 * c.gain_power / (c.mean_gain * clients),
        "heterogeneity": ((steps - 1) * c.eta_local * c.heterogeneity_smoothness * c.heterogeneity_std) ** 2,
        "local drift": (steps - 1)
        * (c.eta_local * c.sgd_std) ** 2
        * (c.heterogeneity_smoothness**2 + c.smoothness**2 / clients),
        "staleness": c.eta * c.smoothness * c.mean_age / steps * (channel_noise + sent),
    }


def bound_terms_for_many_clients(given: ProblemConstants) -> dict[str, float]:
    """Return the three terms that remain for N to infinity."""
    c, steps = given, given.local_steps
    spread = c.heterogeneity_std**2 + c.sgd_std**2
    return {
        "first loss": c.first_gap / (c.eta * c.mean_gain * steps * c.rounds),
        "local steps": (c.eta_local * (steps - 1) * c.heterogeneity_smoothness) ** 2 * spread,
        "staleness": c.eta * steps * c.smoothness * c.mean_age * c.gradient_bound**2 * (1 + c.gain_power),
    }


def rate_limits(given: ProblemConstants) -> dict[str, float]:
    """Return the largest learning rates for which Theorem 1 holds: ``eta`` and ``eta_local``."""
    c, steps = given, given.local_steps
    local = (
        1 / (2 * math.sqrt(30) * steps * c.smoothness),
        1 / math.sqrt(6 * steps * (c.smoothness**2 + c.heterogeneity_smoothness**2)),
    )
    return {"eta": c.mean_gain / (2 * steps * c.smoothness * c.gain_power), "eta_local": min(local)}
