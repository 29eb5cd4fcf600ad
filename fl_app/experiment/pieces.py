# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the pieces of an experiment in the paper's words: the split, the local training, the server, the air."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from fl_app.air.settings import AirSettings

if TYPE_CHECKING:
    import torch

    Measure = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Iid:
    """Divide the training samples at random, in equal numbers.

    Examples
    --------
    >>> oac.Iid().section()
    {'partition': 'iid'}
    """

    def section(self) -> dict[str, Any]:
        """Return the keys of [data] that say the same."""
        return {"partition": "iid"}


@dataclass(frozen=True)
class Dirichlet:
    """Divide each class in proportions drawn from a symmetric Dirichlet(alpha): a smaller alpha is more uneven.

    Examples
    --------
    >>> oac.Dirichlet(0.3).section()
    {'partition': 'dirichlet', 'alpha': 0.3}
    """

    alpha: float = 0.3

    def section(self) -> dict[str, Any]:
        """Return the keys of [data] that say the same."""
        return {"partition": "dirichlet", "alpha": float(self.alpha)}


@dataclass(frozen=True)
class Shards:
    """Sort the samples by class, cut them into equal shards, and give each client some of them.

    Examples
    --------
    >>> oac.Shards(2).section()
    {'partition': 'shards', 'shards_per_client': 2}
    """

    per_client: int = 2

    def section(self) -> dict[str, Any]:
        """Return the keys of [data] that say the same."""
        return {"partition": "shards", "shards_per_client": self.per_client}


@dataclass(frozen=True)
class LearningRate:
    """Describe a learning rate that changes from round to round, by the formulas of ``torch.optim.lr_scheduler``.

    Parameters
    ----------
    base : float
        The rate to begin with, after the warm-up.
    schedule : str
        "constant", "step", "exponential" or "cosine".
    factor : float
        Of "step" and "exponential": the rate is multiplied by it.
    every : int
        Of "step": rounds between two multiplications.
    floor : float
        Of "cosine": the rate that it leads to.
    warmup : int
        First rounds, in which the rate grows in equal steps.

    Examples
    --------
    >>> oac.LocalSGD(lr=oac.LearningRate(0.1, "cosine", warmup=5)).section()["lr_schedule"]
    'cosine'
    """

    base: float
    schedule: str = "constant"
    factor: float = 0.1
    every: int = 1
    floor: float = 0.0
    warmup: int = 0

    def section(self) -> dict[str, Any]:
        """Return the keys of [clients] or [server] that say the same."""
        return {
            "lr": float(self.base),
            "lr_schedule": self.schedule,
            "lr_factor": float(self.factor),
            "lr_every": self.every,
            "lr_floor": float(self.floor),
            "lr_warmup": self.warmup,
        }


@dataclass(frozen=True)
class LocalSGD:
    """Describe what each client does in a round.

    Parameters
    ----------
    steps : int
        Local steps per round, H.
    lr : float or LearningRate
        Local learning rate.
    batch_size : int
        Samples of a step. A batch that holds all the data of a client has it in its own order.
    epochs : int
        Passes over the client's data per round, in place of `steps`; 0 means `steps`.
    momentum, weight_decay : float
        As in ``torch.optim.SGD``; the momentum starts from zero in every round.
    nesterov : bool
        Nesterov's momentum.
    clip_norm : float
        Largest norm of a step's gradients; 0 means any.
    loss : callable, optional
        Function of outputs and targets that returns the mean loss of a batch. By default the task's: cross-entropy for
        whole-number targets, squared error otherwise.
    metrics : mapping, optional
        Figures of merit by name, functions of outputs and targets that return the mean over a batch.
    abstain_below : float
        In a majority vote, a client does not vote on smaller gradients.
    error_feedback : bool
        A client keeps what it did not send and adds it in the next round; the server applies a received value once.

    Examples
    --------
    >>> oac.LocalSGD(steps=5, lr=0.01, batch_size=50).section()["H"]
    5
    """

    steps: int = 5
    lr: float | LearningRate = 0.01
    batch_size: int = 50
    epochs: int = 0
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    loss: Measure | None = None
    metrics: Mapping[str, Measure] | None = None
    abstain_below: float = 0.0
    error_feedback: bool = False

    def section(self) -> dict[str, Any]:
        """Return the keys of [clients] that say the same."""
        return {
            "H": self.steps,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "momentum": float(self.momentum),
            "nesterov": self.nesterov,
            "weight_decay": float(self.weight_decay),
            "clip_norm": float(self.clip_norm),
            "abstain_below": float(self.abstain_below),
            "error_feedback": self.error_feedback,
            **_rate(self.lr),
        }


@dataclass(frozen=True)
class ServerSGD:
    """Describe the server's step: w minus the learning rate times what was received.

    Parameters
    ----------
    lr : float or LearningRate
        Learning rate of the server.
    momentum : float
        Share of the last movement that is kept, as in ``torch.optim.SGD``; 0 is the paper's plain step.
    nesterov : bool
        Nesterov's momentum.

    Examples
    --------
    >>> oac.ServerSGD(lr=0.01).section()
    {'optimizer': 'sgd', 'lr': 0.01}
    >>> oac.ServerSGD(lr=0.01, momentum=0.9).section()["optimizer"]
    'momentum'
    """

    lr: float | LearningRate = 0.01
    momentum: float = 0.0
    nesterov: bool = False

    def section(self) -> dict[str, Any]:
        """Return the keys of [server] that say the same."""
        if self.momentum == 0 and not self.nesterov:
            return {"optimizer": "sgd", **_rate(self.lr)}
        moving = {"optimizer": "momentum", "momentum": float(self.momentum), "nesterov": self.nesterov}
        return {**moving, **_rate(self.lr)}


@dataclass(frozen=True)
class ServerAdam:
    """Describe the server's step as Adam's, on the gradient memory that it reconstructs.

    Parameters
    ----------
    lr : float or LearningRate
        Learning rate of the server.
    beta1, beta2, epsilon : float
        As in ``torch.optim.Adam``.

    Examples
    --------
    >>> oac.ServerAdam(lr=0.001).section()["optimizer"]
    'adam'
    """

    lr: float | LearningRate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def section(self) -> dict[str, Any]:
        """Return the keys of [server] that say the same."""
        moments = {"beta1": float(self.beta1), "beta2": float(self.beta2), "epsilon": float(self.epsilon)}
        return {"optimizer": "adam", **moments, **_rate(self.lr)}


def _rate(lr: float | LearningRate) -> dict[str, Any]:
    return lr.section() if isinstance(lr, LearningRate) else {"lr": float(lr)}


class Ideal(AirSettings):
    """Settings of the air that adds up without noise or fading; by default it carries the gradients themselves.

    Examples
    --------
    >>> oac.Ideal().scheme.name
    'analog'
    """

    name: str = Field("ideal", description="what carries the gradients")
    mode: str = Field("analog", description="the scheme")


class Fading(AirSettings):
    """Settings of the air that goes by formulas: fading and noise on each entry, no waveform.

    Examples
    --------
    >>> oac.Fading(scheme="analog", noise_std=0.02).name
    'fading'
    """

    name: str = Field("fading", description="what carries the gradients")


class Waveform(AirSettings):
    """Settings of the simulated waveform: OFDM symbols, echoes, clocks, timing errors, converters.

    Examples
    --------
    >>> oac.Waveform(scheme="fsk-mv", snr_db=20.0).scheme.name
    'onebit'
    """


class Loopback(AirSettings):
    """Settings of the GNU Radio flowgraph in loopback.

    Examples
    --------
    >>> oac.Loopback(snr_db=15.0).name
    'gnuradio'
    """

    name: str = Field("gnuradio", description="what carries the gradients")


class Digital(AirSettings):
    """Settings of the yardstick: clients send one after the other at the Shannon rate, and every entry arrives.

    Examples
    --------
    >>> oac.Digital(scheme="analog", bits_per_entry=4, backoff_db=3.0).name
    'digital'
    """

    name: str = Field("digital", description="what carries the gradients")


AIR_PIECES: dict[str, type[AirSettings]] = {
    "ideal": Ideal,
    "fading": Fading,
    "waveform": Waveform,
    "gnuradio": Loopback,
    "digital": Digital,
}
