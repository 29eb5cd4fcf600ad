# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate the constants of Theorem 1 along a training trajectory, among them the Lipschitz constants of Table I.

The model is trained by ideal aggregation (all entries, no noise): w_{t+1} = w_t - eta g_t. At some rounds t the
gradients of all clients are computed at w_t, at w_{t+1} and at the clients' own models w_n after H local steps, each on
the same fixed samples of the client. From them:

- L_g^2 is the largest ||grad f(w_{t+1}) - grad f(w_t)||^2 / ||w_{t+1} - w_t||^2 over the rounds (Assumption 1), with f
  the mean over the clients;
- L~^2 is the largest of the same ratio for one client's f_n, over clients and rounds (the usual assumption);
- L_h^2 is the largest ||mean grad f_n(w_n) - grad f(w_bar)||^2 / mean ||w_n - w_bar||^2 over the rounds (Assumption 2),
  with w_bar the mean of the w_n;
- G is the largest norm of a stochastic gradient, on a batch of the local training; sigma_s is the root mean square
  distance of stochastic gradients from the client's gradient on its fixed samples;
- sigma_g is the largest distance of a client's gradient from the mean gradient (Assumption 5).

A largest value over a trajectory is a lower bound of the constant: it holds where training goes, which is what the
bound on convergence needs. Batch-norm layers use the statistics of the batch, as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fl_app.config import Settings
from fl_app.core.client import local_update
from fl_app.core.streams import stream
from fl_app.runs.prepare import Objects, prepare
from oac_blocks.dsp.checks import integer

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TrajectoryConstants:
    """Hold the constants; the Lipschitz constants are squared, in the units of Table I.

    Attributes
    ----------
    local_squared : float
        L~^2, the largest over clients and rounds.
    global_squared : float
        L_g^2.
    heterogeneity_squared : float
        L_h^2.
    gradient_bound : float
        G.
    sgd_std : float
        sigma_s.
    heterogeneity_std : float
        sigma_g.
    entry_rms : float
        Root mean square of an entry of the sum over the local steps that a client sends.
    loss : float
        Mean loss of the first local steps, before training.
    entries : int
        Number of entries of the model, d.
    rounds : int
        Number of rounds at which the constants were estimated.
    samples : int
        Samples of each client on which gradients are computed, at most.
    """

    local_squared: float
    global_squared: float
    heterogeneity_squared: float
    gradient_bound: float
    sgd_std: float
    heterogeneity_std: float
    entry_rms: float
    loss: float
    entries: int
    rounds: int
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


class TrajectoryClients:
    """Compute gradients of all clients on fixed samples, and their local models."""

    def __init__(self, settings: Settings, samples: int, objects: Objects | None) -> None:
        torch.set_num_threads(settings.run.threads)
        self.prepared = prepare(settings, objects)
        self.local, n = self.prepared.local, settings.clients.n
        self.model = self.local.model.build().to(self.local.device)
        self.data = [self.prepared.data_of(client) for client in range(n)]
        rng = stream(settings.run.seed, "lipschitz samples")
        self.fixed = [np.sort(rng.permutation(len(data))[:samples]) for data in self.data]

    def gradients(self, points: list[Vector]) -> Vector:
        """Return the gradient (N, d) of each client at its point, on the client's fixed samples."""
        found = []
        for data, indices, w in zip(self.data, self.fixed, points, strict=True):
            transforms = np.random.default_rng(0)  # the same transforms at all points
            found.append(
                local_update(self.model, data, w, self.local.options, [indices], transforms, self.local.task)[0]
            )
        return np.stack(found)

    def sums(
        self, w: Vector, t: int, one_step: bool = False, clients: Iterable[int] | None = None
    ) -> tuple[Vector, float]:
        """Return each client's sum of gradients over its local steps of round t, (N, d), and the mean loss."""
        found, losses = [], []
        for client in range(len(self.data)) if clients is None else clients:
            data = self.data[client]
            rng = stream(self.local.seed, "batches", t, client)
            batches = islice(self.local.batches(len(data), rng), 1 if one_step else None)
            options, task = self.local.options, self.local.task
            total, loss = local_update(self.model, data, w, options, batches, rng.spawn(1)[0], task)
            found.append(total)
            losses.append(loss)
        return np.stack(found), float(np.mean(losses))


def estimate(
    settings: Settings,
    rounds: int = 20,
    every: int = 1,
    samples: int = 500,
    objects: Objects | None = None,
    on_round: Callable[[int], None] = lambda _t: None,
) -> TrajectoryConstants:
    """Estimate the constants along the first rounds of a run with these settings, on an ideal air.

    Parameters
    ----------
    settings : Settings
        Model, data, partition, local steps and learning rates of the run; momentum and the air do not count.
    rounds : int
        Length of the trajectory.
    every : int
        The constants are estimated at every so many rounds.
    samples : int
        Samples of each client on which gradients are computed, at most.
    objects : Objects, optional
        Parts that a Python program gives.
    on_round : callable
        Called with the number of each finished round.
    """
    rounds, every = integer("rounds", rounds, 1), integer("every", every, 1)
    clients = TrajectoryClients(settings, integer("samples", samples, 1), objects)
    w, n = clients.prepared.server.w, settings.clients.n
    rate = np.float32(settings.clients.lr)
    local = broad = mixed = bound = spread = 0.0
    scatter, powers = [], []
    first_loss = clients.sums(w, 0, one_step=True)[1]
    for t in range(rounds):
        sums, _ = clients.sums(w, t)
        moved = w - np.float32(settings.server.lr) * sums.mean(axis=0)
        if t % every == 0:
            powers.append(float(np.mean(np.square(sums, dtype=np.float64))))
            here, there = clients.gradients([w] * n), clients.gradients([moved] * n)
            step = _square(moved - w)
            local = max(local, max(_square(change) for change in there - here) / step)
            broad = max(broad, _square((there - here).mean(axis=0)) / step)
            drawn, _ = clients.sums(w, t, one_step=True)
            bound = max(bound, *(_square(one) for one in drawn))
            scatter += [_square(one) for one in drawn - here]
            spread = max(spread, *(_square(one) for one in here - here.mean(axis=0)))
            own = list(w - rate * sums)
            middle = np.mean(own, axis=0, dtype=np.float64).astype(np.float32)
            apart = float(np.mean([_square(one - middle) for one in own]))
            if apart > 0:
                gap = clients.gradients(own).mean(axis=0) - clients.gradients([middle] * n).mean(axis=0)
                mixed = max(mixed, _square(gap) / apart)
        w = moved
        on_round(t)
    return TrajectoryConstants(
        local_squared=local,
        global_squared=broad,
        heterogeneity_squared=mixed,
        gradient_bound=float(np.sqrt(bound)),
        sgd_std=float(np.sqrt(np.mean(scatter))),
        heterogeneity_std=float(np.sqrt(spread)),
        entry_rms=float(np.sqrt(np.mean(powers))),
        loss=first_loss,
        entries=w.size,
        rounds=len(powers),
        samples=samples,
    )


def _square(vector: npt.NDArray[Any]) -> float:
    """Return the squared norm, summed in float64."""
    return float(np.einsum("i,i->", vector, vector, dtype=np.float64))
