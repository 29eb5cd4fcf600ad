# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare many small clients in one batched step (``torch.func.vmap``) with the same clients one after the other.

One thread each. All clients have their own weights after the first step, so that the batched step multiplies stacks of
matrices; a convolution with weights of its own for each client becomes one with groups.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from fl_app.core.client import local_update
from fl_app.core.models import ModelSpec, count_parameters, get_parameters, set_parameters
from fl_app.core.samples import ArraySamples
from fl_app.core.steps.local_step import LocalOptions
from fl_app.core.task import Classification

CLIENTS, H, TURNS, RATE = 50, 5, 3, 0.01
FACTS = {"classes": 26, "in_channels": 1, "image_size": 28, "input_shape": (1, 28, 28)}
CASES = tuple((ModelSpec(name, {}, FACTS), batch) for name in ("mlp", "cnn") for batch in (10, 50))


def one_by_one(model: nn.Module, w: Any, images: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
    """Return the sums of gradients (clients, d) as a client group computes them."""
    sums = []
    for own_images, own_labels in zip(images, labels, strict=True):
        steps, batch = own_labels.shape
        samples = ArraySamples(own_images.flatten(0, 1).numpy(), own_labels.flatten().numpy())
        batches = np.arange(steps * batch).reshape(steps, batch)
        sums.append(local_update(model, samples, w, LocalOptions(RATE), batches, np.random.default_rng(0))[0])
    return np.stack(sums)


def batched(model: nn.Module, w: Any, images: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
    """Return the same, all clients taking each step together."""
    set_parameters(model, w)
    model.train()
    task = Classification()

    def loss(parameters: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return task.loss(functional_call(model, parameters, (inputs,)), targets)

    gradients = vmap(grad(loss))
    parameters = {name: value.detach() for name, value in stack_module_state([model] * len(images))[0].items()}
    sums = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for step in range(labels.shape[1]):
        for name, gradient in gradients(parameters, images[:, step], labels[:, step]).items():
            sums[name] += gradient
            parameters[name] = parameters[name].sub(gradient, alpha=RATE)
    return torch.cat([total.flatten(1) for total in sums.values()], dim=1).numpy()


def measure(spec: ModelSpec, batch: int, clients: int = CLIENTS, turns: int = TURNS) -> dict[str, float]:
    """Return the processor time of a round both ways, in seconds, and the largest difference of an entry."""
    rng = np.random.default_rng(1)
    images = torch.from_numpy(rng.random((clients, H, batch, 1, 28, 28), np.float32))
    labels = torch.from_numpy(rng.integers(0, 26, (clients, H, batch)))
    model = spec.build(seed=1)
    w = get_parameters(model)
    ways: dict[str, Callable[..., np.ndarray]] = {"one by one": one_by_one, "batched": batched}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        results = []
        for name, way in ways.items():
            begin = time.process_time()
            results.append(way(model, w, images, labels))
            seconds[name].append(time.process_time() - begin)
    difference = float(np.abs(results[0] - results[1]).max())
    return {**{name: statistics.median(taken) for name, taken in seconds.items()}, "difference": difference}


def main(console: Console) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    table = Table(title=f"{CLIENTS} clients of H = {H} local steps on one core")
    for heading in ("model", "one by one (CPU s)", "batched (CPU s)", "times faster", "largest difference"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    try:
        for spec, batch in CASES:
            name = f"{spec.model}, d = {count_parameters(spec.build()):,}, B = {batch}"
            found = measure(spec, batch)
            times = found["one by one"], found["batched"]
            row = f"{times[0]:.2f}", f"{times[1]:.2f}", f"{times[0] / times[1]:.2f}", f"{found['difference']:.1e}"
            table.add_row(name, *row)
    finally:
        torch.set_num_threads(threads)
    console.print(table)
