# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the regime of a config: how large the air's noise is against the gradient, per entry of the model.

A policy that selects by magnitude behaves in one way where noise dominates and in another where the gradient does
(``accumulation``). Two configs are comparable where this ratio is alike, whatever the size of their models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.config import ConfigError, Settings
from fl_app.core.streams import stream
from fl_app.theory.trajectory import TrajectoryClients
from oac_blocks.dsp.checks import integer


@dataclass(frozen=True)
class Regime:
    """Hold the regime of a config, averaged over some rounds.

    Attributes
    ----------
    d, n, clients, rounds : int
        Entries of the model, clients of the config, clients that were computed, rounds.
    client_rms : float
        Root mean square of an entry of one client's sum over its local steps.
    mean_rms : float
        Root mean square of an entry of the mean over all n clients, without the air's noise.
    noise_rms : float
        Standard deviation of the air's noise on an entry of that mean: [air] noise_std / n.
    noise_to_gradient : float
        ``noise_rms / mean_rms``.
    noise_std : float
        The config's [air] noise_std, on the sum of the clients.
    """

    d: int
    n: int
    clients: int
    rounds: int
    client_rms: float
    mean_rms: float
    noise_rms: float
    noise_to_gradient: float
    noise_std: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


def powers_of(sums: npt.NDArray[np.float32], n: int) -> tuple[float, float]:
    """Return the mean square of an entry of one client, and of the mean over n clients, from some of the clients.

    Clients i and j share the power E[g_i g_j], and each has E[g_i^2]; the mean over n clients has the power
    E[g_i^2] / n + (1 - 1/n) E[g_i g_j]. Both terms are estimated without bias from m >= 2 clients.

    Parameters
    ----------
    sums : array
        (m, d): what m clients send.
    n : int
        Number of clients over which the mean is taken.
    """
    m = len(sums)
    own = float(np.mean(np.square(sums, dtype=np.float64)))
    mean = float(np.mean(np.square(sums.mean(axis=0, dtype=np.float64))))
    shared = (mean - own / m) * m / (m - 1)
    return own, own / n + (1 - 1 / n) * shared


def measure(
    settings: Settings, rounds: int = 2, clients: int | None = None, on_round: Callable[[], None] = lambda: None
) -> Regime:
    """Measure the regime of a config over its first rounds.

    Between the rounds the model takes a dense step with the air's noise on it.

    Parameters
    ----------
    settings : Settings
        Model, data, local steps, learning rates, and noise_std of the air.
    rounds : int
        Number of rounds.
    clients : int, optional
        Clients that are computed in each round, at least 2; by default all. The rest is extrapolated.
    on_round : callable
        Called after each round.
    """
    n = settings.clients.n
    m = n if clients is None else integer("clients", clients, 2)
    if not 2 <= m <= n:
        raise ConfigError(f"--clients must be between 2 and the config's {n}, got {m}")
    if settings.air.noise_std is None:
        raise ConfigError(f"[air] noise_std must be set: the air {settings.air.name} gets its noise from snr_db")
    rounds = integer("rounds", rounds, 1)
    trained = TrajectoryClients(settings, 1, None)
    w, noise = trained.prepared.server.w, settings.air.noise_std / n
    rng = stream(settings.run.seed, "regime noise")
    powers = []
    for t in range(rounds):
        sums, _ = trained.sums(w, t, clients=range(m))
        powers.append(powers_of(sums, n))
        received = sums.mean(axis=0) + np.float32(noise) * rng.standard_normal(w.size, np.float32)
        w = w - np.float32(settings.server.lr) * received
        on_round()
    own, mean = (float(np.sqrt(np.mean(one))) for one in zip(*powers, strict=True))
    return Regime(w.size, n, m, rounds, own, mean, noise, noise / mean, settings.air.noise_std)
