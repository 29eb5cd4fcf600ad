# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs without a radio in between against loops that are written with torch alone: SGD, FedSGD, FedAvg."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fl_app.core.client import placed
from fl_app.core.models import get_parameters, set_parameters
from fl_app.core.streams import stream
from fl_app.runs.run import Run
from tests.fl_app.core.fusing_torch import needs_fused_torch

pytestmark = pytest.mark.usefixtures("one_thread")

SEED, ROUNDS, RATE = 3, 3, 0.05
EXACT = {"air": {"name": "ideal", "mode": "analog"}, "selection": {"policy": "dense", "rho": 1.0}}


@pytest.fixture
def exact(tiny):
    """Makes a run whose server receives the exact mean of all entries; server and clients have one learning rate."""

    def make(clients, server=None, **sections):
        return Run(
            tiny(
                run={"seed": SEED, "rounds": ROUNDS, "eval_every": 100},
                clients={"lr": RATE, **clients},
                server={"lr": RATE, **(server or {})},
                **EXACT,
                **sections,
            )
        )

    return make


def played(run):
    """The weights after all rounds."""
    for _ in run.rounds(ROUNDS):
        pass
    return run.server.w


def backward(model, data, indices):
    model.zero_grad()
    inputs, targets = placed(data.batch(indices, np.random.default_rng(0)), model)  # these samples draw nothing
    nn.functional.cross_entropy(model(inputs), targets).backward()


def drawn(data, size, t, client):
    return stream(SEED, "batches", t, client).choice(len(data), size, replace=False)


@needs_fused_torch
@pytest.mark.parametrize(
    ("server", "options", "decay"),
    [
        ({}, {}, 1.0),
        ({"lr_schedule": "exponential", "lr_factor": 0.5}, {}, 0.5),
        ({"optimizer": "momentum"}, {"momentum": 0.9}, 1.0),
        ({"optimizer": "momentum", "momentum": 0.8, "nesterov": True}, {"momentum": 0.8, "nesterov": True}, 1.0),
    ],
)
def test_one_client_with_one_step_is_the_bare_loop_to_the_last_bit(exact, server, options, decay):
    run = exact({"n": 1, "H": 1, "batch_size": 8}, server)
    model, data = copy.deepcopy(run.prepared.model), run.prepared.data_of(0)
    optimizer = torch.optim.SGD(model.parameters(), RATE, **options)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, decay)
    for t in range(ROUNDS):
        backward(model, data, drawn(data, 8, t, 0))
        optimizer.step()
        rates.step()
    assert played(run).tobytes() == get_parameters(model).tobytes()


def test_one_step_of_all_clients_is_fedsgd(exact):
    n = 3
    run = exact({"n": n, "H": 1, "batch_size": 8})
    model, data = copy.deepcopy(run.prepared.model), [run.prepared.data_of(client) for client in range(n)]
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    for t in range(ROUNDS):
        means = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for client in range(n):
            backward(model, data[client], drawn(data[client], 8, t, client))
            for mean, parameter in zip(means, model.parameters(), strict=True):
                mean += parameter.grad / n
        for mean, parameter in zip(means, model.parameters(), strict=True):
            parameter.grad = mean
        optimizer.step()
    np.testing.assert_allclose(played(run), get_parameters(model), rtol=0, atol=1e-6)


def test_epochs_and_weights_by_size_are_fedavg(exact):
    n, epochs, size = 3, 2, 16
    run = exact({"n": n, "epochs": epochs, "batch_size": size, "weighting": "size"}, data={"limit": 100})
    model, data = copy.deepcopy(run.prepared.model), [run.prepared.data_of(client) for client in range(n)]
    assert len({len(own) for own in data}) == n  # otherwise some weights would be alike
    rounds = run.rounds(ROUNDS)
    for t in range(ROUNDS):
        before = run.server.w.copy()
        # Each round starts from the run's own weights: training makes more of the last bit from round to round.
        average = np.zeros(before.size)
        for client, own in enumerate(data):
            set_parameters(model, before)
            rng, optimizer = stream(SEED, "batches", t, client), torch.optim.SGD(model.parameters(), RATE)
            for _ in range(epochs):
                order = rng.permutation(len(own))
                for first in range(0, len(own), size):
                    backward(model, own, order[first : first + size])
                    optimizer.step()
            average += get_parameters(model).astype(np.float64) * len(own) / sum(map(len, data))
        next(rounds)
        # Weights below 1 are rounded by up to 3e-8, the local ones and the server's.
        np.testing.assert_allclose(run.server.w, average, rtol=0, atol=1e-7)
        assert np.abs(average - before).max() > 1e-3  # the round moves the model far more than the bound
    rounds.close()
