# SPDX-License-Identifier: GPL-3.0-or-later
"""The exchange of the magnitude set and Lipschitz constants, measured where both are known."""

import numpy as np
import pytest
import torch

import fl_app as oac
from fl_app.theory.measured import ExchangeMeter
from fl_app.theory.trajectory import estimate


class _Server:
    """Hold the parts of a server that the meter reads: g, d and the policy with its k and k_M."""

    def __init__(self, d, k, k_m):
        self.d, self.g = d, np.zeros(d, np.float32)
        self.policy = oac.make_policy("fair-k", d, k, k_m=k_m)


class _Run:
    def __init__(self, server):
        self.server = server


class _Row:
    def __init__(self, number):
        self.round, self.mean_aou = number, 3.0


def play(change, rounds=40, d=5000, k=500, k_m=300):
    """Return what the meter sees if ``change(order, rng)`` permutes the ranks of the entries in each round."""
    rng, server, meter = np.random.default_rng(1), _Server(d, k, k_m), ExchangeMeter()
    order = rng.permutation(d)
    for t in range(rounds):
        server.g[order] = np.linspace(2, 1, d)  # order[0] is the largest
        meter.on_round(_Run(server), _Row(t))
        order = change(order, rng)
    return meter.result()


def test_a_uniform_exchange_is_seen_as_one():
    def change(order, rng):
        order = order.copy()
        inside, outside = rng.choice(300, 60, replace=False), 300 + rng.choice(4700, 60, replace=False)
        order[inside], order[outside] = order[outside], order[inside]
        return order

    found = play(change)
    assert found.k0 == 60
    assert found.p1 == pytest.approx(60 / 300)
    assert found.p2 == pytest.approx(60 / 4700)
    assert found.entry_bias < 0.06
    assert found.exit_bias < 0.06
    assert found.return_share == pytest.approx(found.p2, abs=0.02)
    assert found.rounds == 38  # round 0 does not count, and pairs are compared


def test_an_exchange_at_the_threshold_is_seen_as_biased():
    def change(order, _rng):
        order = order.copy()
        order[290:300], order[300:310] = order[300:310].copy(), order[290:300].copy()
        return order

    found = play(change)
    assert found.k0 == 10
    assert found.entry_bias > 0.95
    assert found.exit_bias > 0.9
    assert found.return_share > 0.9  # the same entries go to and fro


def test_in_a_training_run_the_meter_is_a_callback():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((64, 6)).astype(np.float32), rng.integers(0, 3, 64)
    meter = ExchangeMeter()
    run = oac.Experiment(
        lambda: torch.nn.Linear(6, 3), oac.Data((x, y), (x, y)), clients=2, k=6, air="ideal", callbacks=[meter]
    )
    run.train(8)
    found = meter.result()
    assert (found.d, found.k) == (21, 6)
    assert 0 <= found.k0 <= found.k_m
    assert found.predicted_aou is not None


def test_too_few_rounds_are_named():
    with pytest.raises(ValueError, match="rounds"):
        ExchangeMeter().result()


class _Squares(torch.nn.Module):
    """A linear model without bias: its loss is quadratic, and its second derivative constant."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))

    def forward(self, x):
        return x @ self.w


def estimated(inputs, targets, n, **options):
    data = oac.Data((inputs, targets), (inputs, targets), task=oac.Regression())
    parts = np.array_split(np.arange(len(inputs)), n)
    run = oac.Experiment(
        _Squares,
        data,
        clients=n,
        partition=parts,
        air="ideal",
        rho=1.0,
        local=oac.LocalSGD(lr=0.01, steps=3, batch_size=20),
    )
    return estimate(run.settings, rounds=4, samples=20, objects=run._objects, **options)


def test_the_constants_of_a_quadratic_loss_lie_between_its_curvatures():
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((60, 3)) * [3.0, 1.0, 0.3]).astype(np.float32)
    y = (x @ [0.5, 1.0, -1.0]).astype(np.float32)
    found = estimated(x, y, 3)
    curvature = np.linalg.eigvalsh(sum(2 * part.T @ part / len(part) for part in np.array_split(x, 3)) / 3)
    assert curvature[0] ** 2 <= found.global_squared <= curvature[-1] ** 2 * 1.0001
    own = max(np.linalg.eigvalsh(2 * part.T @ part / len(part))[-1] for part in np.array_split(x, 3))
    assert found.global_squared <= found.local_squared <= own**2 * 1.0001
    # The batches hold all samples of a client, so that its gradients do not scatter.
    assert found.sgd_std < 1e-4 * found.gradient_bound
    first = [
        2 * part.T @ (part @ [1, -2, 0.5] - truth) / 20
        for part, truth in zip(np.array_split(x, 3), np.array_split(y, 3), strict=True)
    ]
    assert found.gradient_bound == pytest.approx(max(np.linalg.norm(one) for one in first), rel=1e-4)
    assert found.heterogeneity_std == pytest.approx(
        max(np.linalg.norm(one - np.mean(first, axis=0)) for one in first), rel=1e-3
    )
    assert found.loss == pytest.approx(float(np.mean((x @ [1, -2, 0.5] - y) ** 2)), rel=1e-4)


def test_clients_with_equal_curvatures_have_no_heterogeneity_constant():
    part = np.random.default_rng(3).standard_normal((20, 3)).astype(np.float32)
    x = np.tile(part, (3, 1))
    y = np.concatenate([part @ np.array(w, np.float32) for w in ([1, 0, 0], [0, 1, 0], [0, 0, 1])]).astype(np.float32)
    found = estimated(x, y, 3)
    assert found.heterogeneity_squared < 1e-6 * found.global_squared
    assert found.rounds == 4
    assert estimated(x, y, 3, every=2).rounds == 2
