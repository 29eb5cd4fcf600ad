# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a client's part of Algorithm 1: H local steps, the sum of their gradients and the k entries it sends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fl_app.core.models import Buffers, ModelSpec, get_buffers, measure_buffers, set_buffers, set_parameters
from fl_app.core.networks import layout_of
from fl_app.core.samples import Batch, Samples
from fl_app.core.streams import stream
from fl_app.core.task import Classification, Task
from fl_app.core.torch_seed import seeded_torch
from oac_blocks.dsp.waveform.schemes import Scheme, scheme_named

EVALUATION_BATCH = 100  # test samples per block


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """Describe the clients' local training; every client receives it once, before the first round."""

    seed: int
    model: ModelSpec
    task: Task
    H: int
    lr: float
    batch_size: int
    scheme: str | Scheme  # each process makes its own scheme object from a name
    abstain_below: float
    device: str
    threads: int


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Hold the message that the server broadcasts in round t: the model w_t and the selection S_t."""

    t: int
    w: NDArray[np.float32]
    selected: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClientReport:
    """Hold the result of one client in round t."""

    client: int
    payload: NDArray[Any] | None  # (k,) in the scheme's type; None if another process holds it
    loss: float
    seconds: float
    # False if the gradients were not finite; the client then sends nothing in this round
    transmits: bool


@dataclass(frozen=True)
class Score:
    """Hold the result of a model on one block of the test set."""

    block: int
    samples: int
    loss_sum: float
    totals: dict[str, float]  # the task computes its figures of merit from these


@dataclass(frozen=True)
class Evaluation:
    """Hold the result of a model on the whole test set."""

    loss: float  # mean over the samples
    figures: dict[str, float]  # the task's figures of merit by name, "accuracy" say


def evaluation_of(scores: Iterable[Score], task: Task) -> Evaluation:
    """Add up the scores of all test blocks, in the order of the blocks: sums of floats depend on their order."""
    ordered = sorted(scores, key=lambda score: score.block)
    samples = sum(score.samples for score in ordered)
    loss = sum(score.loss_sum for score in ordered) / samples
    totals = {name: sum(score.totals[name] for score in ordered) for name in ordered[0].totals}
    return Evaluation(loss, task.figures(totals, samples, loss))


def local_update(
    model: nn.Module,
    data: Samples,
    w: NDArray[np.float32],
    H: int,
    lr: float,
    batch_size: int,
    rng: np.random.Generator,
    task: Task | None = None,
) -> tuple[NDArray[np.float32], float]:
    """Run ClientUpdate: H steps of SGD from w.

    Returns
    -------
    gradient : ndarray of float32, shape (d,)
        The sum of the H gradients.
    loss : float
        The mean loss over the H steps.
    """
    task = task or Classification()
    set_parameters(model, w)
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    losses = torch.zeros(H, device=parameters[0].device)
    transforms = rng.spawn(1)[0]  # random transforms draw from a stream of their own, and leave the batches as they are
    for step in range(H):
        inputs, targets = placed(data.batch(_draw_batch(data, batch_size, rng), transforms), model)
        loss = task.loss(model(inputs), targets)
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        losses[step] = loss.detach()
        with torch.no_grad():
            for parameter, total, gradient in zip(parameters, sums, gradients, strict=True):
                total += gradient
                parameter.sub_(gradient, alpha=lr)
    flat = torch.cat([total.reshape(-1) for total in sums]).cpu().numpy()
    return flat, float(losses.mean())


def placed(batch: Batch, model: nn.Module) -> Batch:
    """Return a batch on the model's device; images in the memory layout of the model's own weights."""
    inputs, targets = batch
    device = next(model.parameters()).device
    if inputs.dim() == 4:
        return inputs.to(device, memory_format=layout_of(model)), targets.to(device)
    return inputs.to(device), targets.to(device)


def _draw_batch(data: Samples, batch_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a batch without replacement; a batch that holds all the data has it in its own order, without a draw."""
    if batch_size >= len(data):
        return np.arange(len(data))
    return rng.choice(len(data), batch_size, replace=False)


class ClientGroup:
    """Train some of the clients one after the other in one process, and score the model on some test blocks.

    A client's report depends only on the broadcast, its number and the seed. It depends neither on the group that the
    client is in nor on its position in the group.
    """

    def __init__(self, local: LocalTraining, clients: dict[int, Samples], test_blocks: dict[int, Samples]) -> None:
        torch.set_num_threads(local.threads)
        self.local, self.clients, self.test_blocks = local, clients, test_blocks
        self.scheme = scheme_named(local.scheme) if isinstance(local.scheme, str) else local.scheme
        model = local.model.build()
        self._fresh = get_buffers(model)
        self.model: nn.Module = model.to(local.device)

    def train(self, broadcast: Broadcast) -> Iterator[ClientReport]:
        """Yield the report of each client of this group as soon as it is ready."""
        for client, data in self.clients.items():
            yield self._train_one(broadcast, client, data)

    def _train_one(self, broadcast: Broadcast, client: int, data: Samples) -> ClientReport:
        local, started = self.local, time.perf_counter()
        batches = stream(local.seed, "batches", broadcast.t, client)
        with seeded_torch(stream(local.seed, "model", broadcast.t, client), local.device):  # for dropout
            gradient, loss = local_update(
                self.model, data, broadcast.w, local.H, local.lr, local.batch_size, batches, local.task
            )
        payload = None
        if np.isfinite(gradient).all():
            coins = stream(local.seed, "coins", broadcast.t, client)
            payload = self.scheme.payload_of(gradient[broadcast.selected], coins, local.abstain_below)
        return ClientReport(client, payload, loss, time.perf_counter() - started, payload is not None)

    def measure(self, t: int, w: NDArray[np.float32]) -> Iterator[tuple[int, Buffers]]:
        """Yield each client's batch-norm statistics of the model w, measured on one batch of the client's data."""
        set_parameters(self.model, w)
        # Local training counts its steps in the buffers, and the counts depend on the group; so start from fresh ones.
        set_buffers(self.model, self._fresh)
        for client, data in self.clients.items():
            rng = stream(self.local.seed, "statistics", t, client)
            batch = data.batch(_draw_batch(data, self.local.batch_size, rng), rng)
            yield client, measure_buffers(self.model, [placed(batch, self.model)[0]])

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> list[Score]:
        """Score the model on this group's blocks of the test set."""
        set_parameters(self.model, w)
        set_buffers(self.model, buffers)
        self.model.eval()
        return [self._score(block, data) for block, data in self.test_blocks.items()]

    def _score(self, block: int, data: Samples) -> Score:
        task, rng = self.local.task, stream(self.local.seed, "test", block)
        with torch.no_grad():
            inputs, targets = placed(data.batch(np.arange(len(data)), rng), self.model)
            outputs = self.model(inputs)
            loss_sum = float(task.loss_sum(outputs, targets))
        return Score(block, len(data), loss_sum, task.totals(outputs, targets))
