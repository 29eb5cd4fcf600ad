# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a client's local steps: SGD with clipping, weight decay and momentum, and the sum of what was applied.

The paper's clients run plain SGD and send the sum of their H gradients. Since every step moves the parameters by -lr
times its gradient, that sum is also (w_0 - w_H) / lr: lr times the sum is the way that the client went. A server with
the same rate therefore makes the clients' mean movement its own. With any other local optimizer the two differ, and
the clients send what keeps this meaning: the *sum of the applied directions*, of which plain SGD's are the gradients.
So the sum holds what weight decay and momentum added, and what clipping took away.

One step does what ``clip_grad_norm_`` and ``torch.optim.SGD.step`` do one after the other, to the bit:

1. clipping: gradients of a norm above ``clip_norm``, over all parameters together, are scaled down to it;
2. weight decay: ``weight_decay`` times the parameter is added to its gradient;
3. momentum: the direction is v = momentum * v + gradient, or gradient + momentum * v with ``nesterov``;
4. the parameter moves by -lr times the direction.

v starts from zero in every round: a client keeps nothing between two rounds, so that its report depends on the
broadcast alone, and a client may miss rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from oac_blocks.dsp.checks import real, require

_CLIP_MARGIN = 1e-6  # torch's clip_grad_norm_ adds it to the norm before it divides


@dataclass(frozen=True)
class LocalOptions:
    """Say how a client moves its parameters; the defaults are the paper's plain SGD.

    Parameters
    ----------
    lr
        Local learning rate, 0 or more.
    momentum
        Share of the last direction that is kept, 0 to below 1.
    weight_decay
        Factor of the parameters in the gradients, 0 or more.
    clip_norm
        Largest norm of a step's gradients; 0 is no clipping.
    nesterov
        Whether the step looks ahead; needs momentum.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        for name in ("lr", "momentum", "weight_decay", "clip_norm"):
            real(name, getattr(self, name), 0.0)
        require(self.momentum < 1, "momentum", self.momentum, "below 1")
        require(self.momentum > 0 or not self.nesterov, "nesterov", self.nesterov, "false where momentum is 0")


class LocalSteps:
    """Move the parameters of one client through one round, and add up the directions."""

    def __init__(self, options: LocalOptions, parameters: Sequence[torch.Tensor]) -> None:
        self.options, self.parameters = options, list(parameters)
        self._sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._velocities: list[torch.Tensor] = []

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take one step; the gradients are in the order of the parameters and stay as they are."""
        for parameter, total, direction in zip(self.parameters, self._sums, self._directions(gradients), strict=True):
            total += direction
            parameter.sub_(direction, alpha=self.options.lr)

    def total(self) -> NDArray[np.float32]:
        """Return the sum of the directions of all steps so far, one parameter after the other, shape (d,)."""
        return torch.cat([total.reshape(-1) for total in self._sums]).cpu().numpy()

    def _directions(self, gradients: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        options = self.options
        if options.clip_norm > 0:
            gradients = _clipped(gradients, options.clip_norm)
        if options.weight_decay > 0:
            pairs = zip(gradients, self.parameters, strict=True)
            gradients = [gradient.add(parameter, alpha=options.weight_decay) for gradient, parameter in pairs]
        if options.momentum == 0:
            return gradients
        if not self._velocities:
            self._velocities = [gradient.clone() for gradient in gradients]
        else:
            for velocity, gradient in zip(self._velocities, gradients, strict=True):
                velocity.mul_(options.momentum).add_(gradient)
        if not options.nesterov:
            return self._velocities
        pairs = zip(gradients, self._velocities, strict=True)
        return [gradient.add(velocity, alpha=options.momentum) for gradient, velocity in pairs]


def _clipped(gradients: Sequence[torch.Tensor], clip_norm: float) -> Sequence[torch.Tensor]:
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    # As in torch: multiplying by 1 is quicker than asking a GPU whether the norm is above the limit.
    scale = torch.clamp(clip_norm / (norm + _CLIP_MARGIN), max=1.0)
    return [gradient * scale for gradient in gradients]
