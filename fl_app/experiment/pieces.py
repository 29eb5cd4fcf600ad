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
class LocalSGD:
    """Describe what each client does in a round.

    Parameters
    ----------
    steps : int
        Local steps per round, H.
    lr : float
        Local learning rate.
    batch_size : int
        Samples of a step. A batch that holds all the data of a client has it in its own order.
    loss : callable, optional
        Function of outputs and targets that returns the mean loss of a batch. By default the task's: cross-entropy for
        whole-number targets, squared error otherwise.
    metrics : mapping, optional
        Figures of merit by name, functions of outputs and targets that return the mean over a batch.
    abstain_below : float
        In a majority vote, a client does not vote on smaller gradients.

    Examples
    --------
    >>> oac.LocalSGD(steps=5, lr=0.01, batch_size=50).section()["H"]
    5
    """

    steps: int = 5
    lr: float = 0.01
    batch_size: int = 50
    loss: Measure | None = None
    metrics: Mapping[str, Measure] | None = None
    abstain_below: float = 0.0

    def section(self) -> dict[str, Any]:
        """Return the keys of [clients] that say the same."""
        return {
            "H": self.steps,
            "lr": float(self.lr),
            "batch_size": self.batch_size,
            "abstain_below": float(self.abstain_below),
        }


@dataclass(frozen=True)
class ServerSGD:
    """Describe the server's step: w minus the learning rate times what was received.

    Examples
    --------
    >>> oac.ServerSGD(lr=0.01).section()
    {'lr': 0.01}
    """

    lr: float = 0.01

    def section(self) -> dict[str, Any]:
        """Return the keys of [server] that say the same."""
        return {"lr": float(self.lr)}


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


AIR_PIECES: dict[str, type[AirSettings]] = {
    "ideal": Ideal,
    "fading": Fading,
    "waveform": Waveform,
    "gnuradio": Loopback,
}
