# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a client's part of Algorithm 1: H local steps, the sum of their gradients and the k entries it sends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fl_app.core.models import Buffers, build_model, get_buffers, measure_buffers, set_buffers, set_parameters
from fl_app.core.streams import stream
from oac_blocks.dsp.waveform.schemes import scheme_named

EVALUATION_BATCH = 100  # test images per block
ONEDNN_CHANNEL_BLOCK = 16  # channels that oneDNN processes together


@dataclass(frozen=True, eq=False)
class Samples:
    """Hold images as the model takes them, float32 (n, channels, height, width), and their labels, int64."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Task:
    """Describe the training task; every client receives it once, before the first round."""

    seed: int
    model_name: str
    classes: int
    channels: int
    image_size: int
    width: int
    H: int
    lr: float
    batch_size: int
    scheme: str  # the name of the scheme; each process makes its own scheme object from it
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
    correct: int
    loss_sum: float


def fast_layout(model: nn.Module) -> torch.memory_format:
    """Return the fastest memory layout that is safe for this model on a CPU.

    Channels last is up to three times faster than the contiguous layout. It is not safe for a ResNet-18 of width below
    16: in the backward pass of a strided 1x1 convolution, oneDNN writes past its workspace if the input is channels
    last and has fewer channels than oneDNN's block (uxlfoundation/oneDNN#6035).
    """
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    skipping = [one for one in convolutions if one.kernel_size == (1, 1) and one.stride != (1, 1)]
    narrow = any(one.in_channels < ONEDNN_CHANNEL_BLOCK for one in skipping)
    return torch.contiguous_format if narrow else torch.channels_last


def local_update(
    model: nn.Module,
    data: Samples,
    w: NDArray[np.float32],
    H: int,
    lr: float,
    batch_size: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float32], float]:
    """Run ClientUpdate: H steps of SGD from w.

    Returns
    -------
    gradient : ndarray of float32, shape (d,)
        The sum of the H gradients.
    loss : float
        The mean loss over the H steps.
    """
    device, layout = next(model.parameters()).device, fast_layout(model)
    set_parameters(model, w)
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    losses = torch.zeros(H, device=device)
    for step in range(H):
        batch = _draw_batch(data, batch_size, rng)
        images = torch.from_numpy(data.images[batch]).to(device, memory_format=layout)
        labels = torch.from_numpy(data.labels[batch]).to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        gradients = torch.autograd.grad(loss, parameters)
        losses[step] = loss.detach()
        with torch.no_grad():
            for parameter, total, gradient in zip(parameters, sums, gradients, strict=True):
                total += gradient
                parameter.sub_(gradient, alpha=lr)
    flat = torch.cat([total.reshape(-1) for total in sums]).cpu().numpy()
    return flat, float(losses.mean())


def _draw_batch(data: Samples, batch_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.choice(len(data), min(batch_size, len(data)), replace=False)


class ClientGroup:
    """Train some of the clients one after the other in one process, and score the model on some test blocks.

    A client's report depends only on the broadcast, its number and the seed. It depends neither on the group that the
    client is in nor on its position in the group.
    """

    def __init__(self, task: Task, clients: dict[int, Samples], test_blocks: dict[int, Samples]) -> None:
        torch.set_num_threads(task.threads)
        self.task, self.clients, self.test_blocks = task, clients, test_blocks
        self.scheme = scheme_named(task.scheme)
        model: Any = build_model(task.model_name, task.classes, task.channels, task.image_size, task.width)
        self._fresh = get_buffers(model)
        self.model: nn.Module = model.to(task.device, memory_format=fast_layout(model))

    def train(self, broadcast: Broadcast) -> Iterator[ClientReport]:
        """Yield the report of each client of this group as soon as it is ready."""
        for client, data in self.clients.items():
            yield self._train_one(broadcast, client, data)

    def _train_one(self, broadcast: Broadcast, client: int, data: Samples) -> ClientReport:
        task, started = self.task, time.perf_counter()
        batches = stream(task.seed, "batches", broadcast.t, client)
        gradient, loss = local_update(self.model, data, broadcast.w, task.H, task.lr, task.batch_size, batches)
        payload = None
        if np.isfinite(gradient).all():
            coins = stream(task.seed, "coins", broadcast.t, client)
            payload = self.scheme.payload_of(gradient[broadcast.selected], coins, task.abstain_below)
        return ClientReport(client, payload, loss, time.perf_counter() - started, payload is not None)

    def measure(self, t: int, w: NDArray[np.float32]) -> Iterator[tuple[int, Buffers]]:
        """Yield each client's batch-norm statistics of the model w, measured on one batch of the client's data."""
        set_parameters(self.model, w)
        # Local training counts its steps in the buffers, and the counts depend on the group; so start from fresh ones.
        set_buffers(self.model, self._fresh)
        for client, data in self.clients.items():
            rng = stream(self.task.seed, "statistics", t, client)
            images = torch.from_numpy(data.images[_draw_batch(data, self.task.batch_size, rng)])
            batch = images.to(self.task.device, memory_format=fast_layout(self.model))
            yield client, measure_buffers(self.model, [batch])

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> list[Score]:
        """Score the model on this group's blocks of the test set."""
        set_parameters(self.model, w)
        set_buffers(self.model, buffers)
        self.model.eval()
        return [self._score(block, data) for block, data in self.test_blocks.items()]

    def _score(self, block: int, data: Samples) -> Score:
        with torch.no_grad():
            labels = torch.from_numpy(data.labels).to(self.task.device)
            images = torch.from_numpy(data.images).to(self.task.device, memory_format=fast_layout(self.model))
            outputs = self.model(images)
            loss_sum = nn.functional.cross_entropy(outputs, labels, reduction="sum")
            correct = (outputs.argmax(dim=1) == labels).sum()
        return Score(block, int(correct), float(loss_sum))


def blocks_of(test: Samples) -> Sequence[Samples]:
    """Divide the test set into blocks of fixed size, so that any number of processes computes the same sums."""
    starts = range(0, len(test), EVALUATION_BATCH)
    return [
        Samples(test.images[start : start + EVALUATION_BATCH], test.labels[start : start + EVALUATION_BATCH])
        for start in starts
    ]
