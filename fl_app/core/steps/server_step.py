# SPDX-License-Identifier: GPL-3.0-or-later
"""Move the model against the direction that the server reconstructed: by SGD, SGD with momentum, or Adam.

Line 8 of Algorithm 1 is plain SGD, w_{t+1} = w_t - eta g_t. Here g_t stands for the scheme's direction: g_t itself
for amplitudes, its signs for a majority vote. Momentum and Adam treat that direction as a gradient. An entry that was
not refreshed in round t keeps its older value in g_t, and counts once more, as it does in plain SGD. With error
feedback at the clients it does not: a client sends what it has not sent before, and that must count once.

The state is float32 in plain NumPy. Additions, products, quotients and square roots are rounded alike on every
machine, and no other function is called, so that server and clients compute the same bits from the same directions.
SGD with and without momentum has the bits of ``torch.optim.SGD`` on a processor with a fused multiply-add.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.steps.fused import multiply_add
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.names import canonical

SERVER_STEPS = ("sgd", "momentum", "adam")
STEP_PREFIX = "step."  # begins the names of a step's arrays among those of a server

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ServerOptions:
    """Say how the server moves the model; the defaults are the paper's SGD, and those of torch for the others.

    Parameters
    ----------
    optimizer
        One of SERVER_STEPS.
    momentum, nesterov
        Of "momentum": the share of the last movement that is kept, 0 to below 1, and whether the step looks ahead.
    beta1, beta2, epsilon
        Of "adam": the decay of the mean and of the mean square, 0 to below 1, and the term below the fraction.
    fresh_only
        Whether a received value counts in its own round alone.
    """

    optimizer: str = "sgd"
    momentum: float = 0.9
    nesterov: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    fresh_only: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", canonical("server optimizer", self.optimizer, SERVER_STEPS))
        for name in ("momentum", "beta1", "beta2"):
            value = getattr(self, name)
            require(real(name, value, 0.0) < 1, name, value, "below 1")
        real("epsilon", self.epsilon, 0.0, open_low=True)

    def make(self, d: int) -> ServerStep:
        """Return a new step for a model of d parameters."""
        d = integer("d", d, 1)
        step: ServerStep = SgdStep()
        if self.optimizer == "momentum":
            step = MomentumStep(d, self.momentum, self.nesterov)
        if self.optimizer == "adam":
            step = AdamStep(d, self.beta1, self.beta2, self.epsilon)
        step.fresh_only = self.fresh_only
        return step


class ServerStep(ABC):
    """Hold what the server's optimizer remembers between two rounds, and compute w_{t+1}."""

    fresh_only = False  # whether an entry that was not sent in a round has the direction 0 in it

    def move(self, w: Floats, direction: Floats, selected: NDArray[np.int64], rate: float) -> Floats:
        """Return w_{t+1} after a round that sent the selected entries; `direction` follows from the whole memory."""
        if self.fresh_only:
            fresh = np.zeros_like(direction)
            fresh[selected] = direction[selected]
            direction = fresh
        return self.step(w, direction, rate)

    @abstractmethod
    def step(self, w: Floats, direction: Floats, rate: float) -> Floats:
        """Return w_{t+1} from w_t, the direction to move against and the learning rate of this round."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state: the arrays themselves, by name. A checkpoint keeps them, and a joining client gets them."""
        return {}

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore the state that ``arrays`` returned; nothing changes if an array is missing or does not fit."""
        own = self.arrays()
        if arrays.keys() != own.keys():
            raise ValueError(f"the server's optimizer has the arrays {sorted(own)}, not {sorted(arrays)}")
        for name, array in own.items():
            given = arrays[name]
            if given.dtype != array.dtype or given.shape != array.shape:
                raise ValueError(
                    f"{name} must be {array.dtype} of shape {array.shape}, not {given.dtype} {given.shape}"
                )
        for name, array in own.items():
            array[...] = arrays[name]


class SgdStep(ServerStep):
    """Compute w - rate * direction, rounded once."""

    def step(self, w: Floats, direction: Floats, rate: float) -> Floats:
        return multiply_add(w, -rate, direction)


class MomentumStep(ServerStep):
    """Move against v, where v becomes momentum * v + direction; Nesterov's step against direction + momentum * v."""

    def __init__(self, d: int, momentum: float, nesterov: bool = False) -> None:
        self.momentum, self.nesterov = momentum, nesterov
        self.velocity: Floats = np.zeros(d, np.float32)

    def step(self, w: Floats, direction: Floats, rate: float) -> Floats:
        self.velocity *= np.float32(self.momentum)
        self.velocity += direction
        movement = multiply_add(direction, self.momentum, self.velocity) if self.nesterov else self.velocity
        return multiply_add(w, -rate, movement)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"velocity": self.velocity}


class AdamStep(ServerStep):
    """Move against the mean of the directions over the root of their mean square, both without their initial bias."""

    def __init__(self, d: int, beta1: float, beta2: float, epsilon: float) -> None:
        self.betas, self.epsilon = (beta1, beta2), epsilon
        self.mean: Floats = np.zeros(d, np.float32)
        self.square: Floats = np.zeros(d, np.float32)
        # beta1^t and beta2^t, by one multiplication a round: pow() is not rounded alike by every C library.
        self.powers: NDArray[np.float64] = np.ones(2, np.float64)

    def step(self, w: Floats, direction: Floats, rate: float) -> Floats:
        self.powers *= self.betas
        bias1, bias2 = (1.0 - self.powers).tolist()
        for average, sample, beta in zip(
            (self.mean, self.square), (direction, direction * direction), self.betas, strict=True
        ):
            average *= np.float32(beta)
            average += sample * np.float32(1.0 - beta)
        root = np.sqrt(self.square)
        root /= np.float32(math.sqrt(bias2))
        root += np.float32(self.epsilon)
        return multiply_add(w, -rate / bias1, self.mean / root)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"mean": self.mean, "square": self.square, "powers": self.powers}
