# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a client's part of Algorithm 1: local steps, the sum of their directions and the k entries it sends."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fl_app.core.models import Buffers, ModelSpec, get_buffers, measure_buffers, set_buffers, set_parameters
from fl_app.core.networks.images import layout_of
from fl_app.core.participation import participants
from fl_app.core.samples import Batch, Samples
from fl_app.core.sending import payload_of_update
from fl_app.core.steps.batches import draw_batch, epoch_batches, step_batches
from fl_app.core.steps.local_step import LocalOptions, LocalSteps
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.streams import stream
from fl_app.core.task import Classification, Task
from fl_app.core.torch_seed import seeded_torch
from oac_blocks.dsp.waveform.schemes import Scheme, scheme_named

EVALUATION_BATCH = 100  # test samples per block


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """Describe the clients' local training; every client receives it once, before the first round."""

    seed: int
    n_clients: int
    fraction: float  # share of the clients that take part in a round
    model: ModelSpec
    task: Task
    H: int
    epochs: int  # passes over the data instead of H steps; 0: H steps
    batch_size: int
    options: LocalOptions
    schedule: RateSchedule  # the local learning rate of each round, in place of the options' rate
    weights: tuple[float, ...]  # factor of each client's sum; empty if all clients count alike
    scheme: str | Scheme  # each process makes its own scheme object from a name
    abstain_below: float
    device: str
    threads: int
    error_feedback: bool = False  # whether a client keeps what it did not send

    def participants(self, t: int) -> NDArray[np.int64]:
        """Return the clients that take part in round t, in ascending order."""
        return participants(self.seed, t, self.n_clients, self.fraction)

    def batches(self, samples: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield the samples of each local step of a round, drawn one batch at a time."""
        if self.epochs:
            return epoch_batches(samples, self.batch_size, self.epochs, rng)
        return step_batches(samples, self.batch_size, self.H, rng)


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Hold the message that the server broadcasts in round t: the model w_t and the selection S_t.

    Attributes
    ----------
    residuals
        What clients have not sent yet, by their number. The server's process keeps it for clients that it computes
        itself, so that any process can compute any client; a client without one has kept nothing so far.
    """

    t: int
    w: NDArray[np.float32]
    selected: NDArray[np.int64]
    residuals: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)

    def for_clients(self, clients: Collection[int]) -> Broadcast:
        """Return the message with the residuals of these clients alone."""
        return replace(self, residuals={n: kept for n, kept in self.residuals.items() if n in clients})


@dataclass(frozen=True, eq=False)
class ClientReport:
    """Hold the result of one client in round t."""

    client: int
    payload: NDArray[Any] | None  # (k,) in the scheme's type; None if another process holds it
    loss: float
    seconds: float
    # False if the gradients were not finite; the client then sends nothing in this round
    transmits: bool
    residual: NDArray[np.float32] | None = None  # what the client keeps for the next round; None without error feedback


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
    options: LocalOptions,
    batches: Iterable[NDArray[np.int64]],
    rng: np.random.Generator,
    task: Task | None = None,
) -> tuple[NDArray[np.float32], float]:
    """Run ClientUpdate: one step of SGD from w for each batch.

    Parameters
    ----------
    model, data, w
        The model, the client's data and the weights to start from.
    options
        How a step moves the parameters.
    batches
        The samples of each step.
    rng
        Draws what the data leaves to chance, such as random transforms. It is not the one that draws the batches.
    task
        What is learned; classification by default.

    Returns
    -------
    total : ndarray of float32, shape (d,)
        The sum of the directions of all steps; in plain SGD these are the gradients.
    loss : float
        The mean loss over the steps.
    """
    task = task or Classification()
    set_parameters(model, w)
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    steps, losses = LocalSteps(options, parameters), []
    for indices in batches:
        inputs, targets = placed(data.batch(indices, rng), model)
        loss = task.loss(model(inputs), targets)
        losses.append(loss.detach())
        steps.step(torch.autograd.grad(loss, parameters, materialize_grads=True))
    return steps.total(), float(torch.stack(losses).mean())


def placed(batch: Batch, model: nn.Module) -> Batch:
    """Return a batch on the model's device; images in the memory layout of the model's own weights."""
    inputs, targets = batch
    device = next(model.parameters()).device
    if inputs.dim() == 4:
        return inputs.to(device, memory_format=layout_of(model)), targets.to(device)
    return inputs.to(device), targets.to(device)


def score_block(
    model: nn.Module, task: Task, block: int, data: Samples, rng: np.random.Generator
) -> tuple[Score, torch.Tensor, torch.Tensor]:
    """Score a model in evaluation mode on all samples of a block.

    Parameters
    ----------
    model, task, data
        The model, what it is trained for, and the samples.
    block
        Number of the block.
    rng
        Draws what the data leaves to chance, such as random transforms.

    Returns
    -------
    score : Score
    outputs, targets : Tensor
        What the model answered, and what was wanted.
    """
    with torch.no_grad():
        inputs, targets = placed(data.batch(np.arange(len(data)), rng), model)
        outputs = model(inputs)
        loss_sum = float(task.loss_sum(outputs, targets))
    return Score(block, len(data), loss_sum, task.totals(outputs, targets)), outputs, targets


class ClientGroup:
    """Train some of the clients one after the other in one process, and score the model on some test blocks.

    A client's report depends only on the broadcast, which has its residual, on its number and on the seed. It depends
    neither on the group that the client is in nor on its position in the group.
    """

    def __init__(self, local: LocalTraining, clients: dict[int, Samples], test_blocks: dict[int, Samples]) -> None:
        torch.set_num_threads(local.threads)
        self.local, self.clients, self.test_blocks = local, clients, test_blocks
        self.scheme = scheme_named(local.scheme) if isinstance(local.scheme, str) else local.scheme
        model = local.model.build()
        self._fresh = get_buffers(model)
        self.model: nn.Module = model.to(local.device)

    def train(self, broadcast: Broadcast) -> Iterator[ClientReport]:
        """Yield the report of each client of this group that takes part, as soon as it is ready."""
        taking_part = set(self.local.participants(broadcast.t).tolist())
        for client, data in self.clients.items():
            if client in taking_part:
                yield self._train_one(broadcast, client, data)

    def _train_one(self, broadcast: Broadcast, client: int, data: Samples) -> ClientReport:
        local, started = self.local, time.perf_counter()
        rng = stream(local.seed, "batches", broadcast.t, client)
        options = replace(local.options, lr=local.schedule.rate(broadcast.t))
        with seeded_torch(stream(local.seed, "model", broadcast.t, client), local.device):  # for dropout
            batches, transforms = local.batches(len(data), rng), rng.spawn(1)[0]
            gradient, loss = local_update(self.model, data, broadcast.w, options, batches, transforms, local.task)
        if local.weights:
            gradient *= np.float32(local.weights[client])
        residual = None
        if local.error_feedback:
            residual = broadcast.residuals.get(client, np.zeros_like(gradient))
            gradient += residual
        selected = broadcast.selected
        payload = payload_of_update(
            gradient, selected, self.scheme, local.abstain_below, local.seed, broadcast.t, client
        )
        if local.error_feedback and payload is not None:
            residual = gradient
            residual[selected] -= self.scheme.stands_for(payload, gradient[selected])
        return ClientReport(client, payload, loss, time.perf_counter() - started, payload is not None, residual)

    def measure(self, t: int, w: NDArray[np.float32]) -> Iterator[tuple[int, Buffers]]:
        """Yield each client's batch-norm statistics of the model w, measured on one batch of the client's data."""
        set_parameters(self.model, w)
        # Local training counts its steps in the buffers, and the counts depend on the group; so start from fresh ones.
        set_buffers(self.model, self._fresh)
        for client, data in self.clients.items():
            rng = stream(self.local.seed, "statistics", t, client)
            batch = data.batch(draw_batch(len(data), self.local.batch_size, rng), rng)
            yield client, measure_buffers(self.model, [placed(batch, self.model)[0]])

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> list[Score]:
        """Score the model on this group's blocks of the test set."""
        set_parameters(self.model, w)
        set_buffers(self.model, buffers)
        self.model.eval()
        return [self._score(block, data) for block, data in self.test_blocks.items()]

    def _score(self, block: int, data: Samples) -> Score:
        return score_block(self.model, self.local.task, block, data, stream(self.local.seed, "test", block))[0]
