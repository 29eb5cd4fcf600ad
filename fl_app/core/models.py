# SPDX-License-Identifier: GPL-3.0-or-later
"""Build models by name or factory, and map their parameters to one flat vector of d numbers for the air.

A model's state travels in two ways (docs/models.md says why):
- The gradients of the trainable parameters go over the air, k entries per round. The flat vector has the order of
  `model.parameters()`.
- The buffers (batch-norm's running mean, variance and step count) go over the control link. The server averages them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fl_app.core.catalog import MODELS
from fl_app.core.torch_seed import seeded_torch
from oac_blocks.plugins import PluginError, call

Vector = NDArray[np.float32]
Buffers = dict[str, NDArray[Any]]
ModelFactory = Callable[..., nn.Module]


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """Say how a process builds the model: by a name or a factory, a user's arguments, and facts about the data."""

    model: str | ModelFactory
    args: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return the setting that names the model, for errors."""
        named = self.model if isinstance(self.model, str) else getattr(self.model, "__name__", repr(self.model))
        return f"[model] name = {named!r}"

    def build(self, seed: int = 0) -> nn.Module:
        """Build the model with weights drawn from `seed`; torch's global generator keeps its state.

        Raises
        ------
        PluginError
            If the model cannot be imported or built, or if it has no parameters to train.
        """
        try:
            factory = MODELS.load(self.model) if isinstance(self.model, str) else self.model
        except PluginError as error:
            raise PluginError(f"[model] name = {error}") from None
        with seeded_torch(seed):  # weights are drawn on the CPU, so that every device gets the same ones
            model: Any = call(factory, self.title, self.args, self.facts)
        if not isinstance(model, nn.Module):
            raise PluginError(f"{self.title}: it must return a torch.nn.Module, not {type(model).__name__}")
        if not _travelling(model):
            raise PluginError(f"{self.title}: the model has no parameters that can be trained")
        other = sorted({str(one.dtype) for one in _travelling(model)} - {"torch.float32"})
        if other:
            raise PluginError(f"{self.title}: all trainable parameters must be torch.float32, not {other[0]}")
        return model


def build_model(
    name: str, classes: int, in_channels: int = 1, image_size: int = 28, width: int | None = None, seed: int = 0
) -> nn.Module:
    """Build an image classifier by its name; `width` is for models that have such an argument."""
    facts = {"classes": classes, "in_channels": in_channels, "image_size": image_size}
    return ModelSpec(name, facts=facts if width is None else {**facts, "width": width}).build(seed)


@dataclass(frozen=True)
class ParameterSlot:
    """Say where one tensor of the model lies in the flat vector: entries start..stop-1."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


def parameter_layout(model: nn.Module) -> list[ParameterSlot]:
    """Return the slot of each trainable tensor, in the order of the flat vector."""
    slots, start = [], 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            slots.append(ParameterSlot(name, tuple(parameter.shape), start, start + parameter.numel()))
            start += parameter.numel()
    return slots


def count_parameters(model: nn.Module) -> int:
    """Return d, the length of the flat vector."""
    return sum(parameter.numel() for parameter in _travelling(model))


def get_parameters(model: nn.Module) -> Vector:
    """Return a copy of w as one float32 vector of d entries."""
    return _flatten([parameter.detach() for parameter in _travelling(model)])


def set_parameters(model: nn.Module, vector: NDArray[Any]) -> None:
    """Write the vector w into the model, on the model's device."""
    parameters, d = _travelling(model), count_parameters(model)
    vector = np.require(vector, np.float32, ["C", "W"])  # torch warns of arrays that it must not write to
    if vector.shape != (d,):
        raise ValueError(f"vector must have shape ({d},), not {vector.shape}")
    with torch.no_grad():
        for parameter, piece in zip(
            parameters, torch.from_numpy(vector).split([parameter.numel() for parameter in parameters]), strict=True
        ):
            parameter.copy_(piece.view_as(parameter))


def get_gradients(model: nn.Module) -> Vector:
    """Return a copy of the gradient as one float32 vector of d entries; entries that backward() did not reach are 0."""
    parameters = _travelling(model)
    if all(parameter.grad is None for parameter in parameters):
        raise ValueError("the model has no gradients: call backward() first")
    return _flatten([torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in parameters])


def get_buffers(model: nn.Module) -> Buffers:
    """Return copies of the buffers by name: batch-norm's running statistics for ResNet-18, none for the CNN."""
    return {name: buffer.detach().cpu().numpy().copy() for name, buffer in model.named_buffers()}


def set_buffers(model: nn.Module, buffers: Mapping[str, NDArray[Any]]) -> None:
    """Write all buffers into the model, in the form that `get_buffers` returns."""
    own = dict(model.named_buffers())
    if own.keys() != buffers.keys():
        raise ValueError(f"buffers must name exactly the model's; these differ: {sorted(own.keys() ^ buffers.keys())}")
    for name, buffer in own.items():
        if buffers[name].shape != tuple(buffer.shape):
            raise ValueError(f"buffer {name} must have shape {tuple(buffer.shape)}, not {buffers[name].shape}")
    with torch.no_grad():
        for name, buffer in own.items():
            buffer.copy_(torch.from_numpy(np.array(buffers[name])))


def measure_buffers(model: nn.Module, batches: Iterable[torch.Tensor]) -> Buffers:
    """Measure the batch-norm statistics of a model on these images by forward passes; the model stays unchanged.

    Running statistics follow training as a moving average and lag behind a model that changes fast. A client that
    measures the broadcast model on a batch of its own data tells the server the present statistics.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    before, modes, momenta = get_buffers(model), [m.training for m in model.modules()], [n.momentum for n in norms]
    try:
        model.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.train()
            norm.momentum = None  # None makes torch take the plain average over the batches
        count = 0
        with torch.no_grad():
            for batch in batches:
                model(batch)
                count += 1
        if count == 0:
            raise ValueError("measure_buffers needs 1 batch or more, not 0")
        measured = get_buffers(model)
    finally:
        set_buffers(model, before)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, mode in zip(model.modules(), modes, strict=True):
            module.training = mode
    return {name: before[name] if name.endswith("num_batches_tracked") else measured[name] for name in before}


def average_buffers(clients: Sequence[Mapping[str, NDArray[Any]]], weights: Sequence[float] | None = None) -> Buffers:
    """Combine the buffers of the clients into one set for the server.

    `weights` gives each client's weight; by default all weights are equal. Running variances are pooled as the mean of
    the variances plus the variance of the means: clients with different data have different means, and the plain
    average of their variances would be too small for the mixture in the server's test set. For a count (a whole
    number) the result is the largest. All sums are in float64 and in the given order.
    """
    if not clients:
        raise ValueError("average_buffers needs the buffers of 1 client or more, not 0")
    shares = np.ones(len(clients)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(clients),) or not np.isfinite(shares).all() or shares.min() < 0 or shares.sum() == 0:
        raise ValueError(f"weights must be {len(clients)} numbers of 0 or more, not all 0; got {weights!r}")
    shares = shares / shares.sum()
    _check_buffers(clients)
    averaged: Buffers = {}
    for name, first in clients[0].items():
        values = [client[name] for client in clients]
        if all(np.array_equal(value, first) for value in values):  # a constant, such as a table of positions
            averaged[name] = first.copy()
            continue
        if first.dtype.kind in "iu":
            averaged[name] = np.maximum.reduce(values)
            continue
        mean = _weighted(values, shares)
        mean_name = name.removesuffix("running_var") + "running_mean"
        if name.endswith("running_var") and mean_name in clients[0]:
            means = [np.asarray(client[mean_name], np.float64) for client in clients]
            centre = _weighted(means, shares)
            mean = mean + _weighted([(value - centre) ** 2 for value in means], shares)
        averaged[name] = mean.astype(first.dtype)
    return averaged


def _weighted(values: Sequence[NDArray[Any]], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros(values[0].shape)
    for share, value in zip(shares, values, strict=True):
        total += share * value
    return total


def _check_buffers(clients: Sequence[Mapping[str, NDArray[Any]]]) -> None:
    for number, client in enumerate(clients):
        if client.keys() != clients[0].keys():
            raise ValueError(f"client {number} does not have the same buffers as client 0")
        for name, value in client.items():
            if value.shape != clients[0][name].shape:
                raise ValueError(f"buffer {name} of client {number} has shape {value.shape}, unlike that of client 0")
            if not np.isfinite(value).all():
                raise ValueError(f"buffer {name} of client {number} is not finite")


def layers(model: nn.Module) -> list[tuple[str, int]]:
    """Return the model's layers in the order of w: each one's name with its kind, and its number of entries."""
    found: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            layer = name.rpartition(".")[0]
            layer = f"{layer} {type(model.get_submodule(layer)).__name__}" if layer else name
            found[layer] = found.get(layer, 0) + parameter.numel()
    return list(found.items())


def _travelling(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _flatten(tensors: Sequence[torch.Tensor]) -> Vector:
    flat: Vector = torch.cat([tensor.reshape(-1).float() for tensor in tensors]).cpu().numpy()
    return flat
