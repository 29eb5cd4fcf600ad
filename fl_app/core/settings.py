# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections [clients] and [server] of a config: how the clients train, and how the server moves the model.

The defaults are the paper's. Imports no torch, so that the command line answers at once.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl_app.core.participation import participant_count
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.steps.server_step import ServerOptions
from oac_blocks.bench.section import Section
from oac_blocks.dsp.waveform.schemes import Scheme


class _ClientKeys(Section):
    """The keys of [clients] before `lr`; pydantic lists the keys of the last base class first."""

    n: int = Field(2, ge=1, description="clients, N")
    fraction: float = Field(1.0, gt=0, le=1, description="share of the clients that take part in a round, at least one")
    H: int = Field(5, ge=1, description="local steps a round")
    epochs: int = Field(0, ge=0, description="passes over a client's data a round, instead of H steps; 0: H steps")
    batch_size: int = Field(50, ge=1, description="samples in a local step")
    momentum: float = Field(0.0, ge=0, lt=1, description="share of the last local direction that is kept in a round")
    nesterov: bool = Field(False, description="the local step looks ahead; needs momentum")
    weight_decay: float = Field(0.0, ge=0, description="factor of the parameters in the local gradients")
    clip_norm: float = Field(0.0, ge=0, description="largest norm of a local step's gradients; 0: any")
    weighting: Literal["equal", "size"] = Field("equal", description="all clients count alike, or by their samples")
    abstain_below: float = Field(0.0, ge=0, description="one-bit: a client does not vote on smaller gradients")
    error_feedback: bool = Field(
        False,
        description="a client keeps what it did not send and adds it in the next round; the server then applies a "
        "received value once",
    )


class _ServerKeys(Section):
    """The keys of [server] before `lr`."""

    optimizer: Literal["sgd", "momentum", "adam"] = Field("sgd", description="how the model moves against g")
    momentum: float = Field(0.9, ge=0, lt=1, description="of momentum: share of the last movement that is kept")
    nesterov: bool = Field(False, description="of momentum: the step looks ahead")
    beta1: float = Field(0.9, ge=0, lt=1, description="of adam: decay of the mean")
    beta2: float = Field(0.999, ge=0, lt=1, description="of adam: decay of the mean square")
    epsilon: float = Field(1e-8, gt=0, description="of adam: added to the root of the mean square")


class RateSection(Section):
    """A learning rate and its schedule; `fl_app.core.steps.schedules` has the formulas."""

    lr: float = Field(0.01, gt=0, description="global learning rate, eta")
    lr_schedule: Literal["constant", "step", "exponential", "cosine"] = Field(
        "constant", description="how lr changes from round to round"
    )
    lr_factor: float = Field(0.1, gt=0, le=1, description="of step and exponential: lr is multiplied by it")
    lr_every: int = Field(1, ge=1, description="of step: rounds between two multiplications")
    lr_floor: float = Field(0.0, ge=0, description="of cosine: the rate that it leads to, at most lr")
    lr_warmup: int = Field(0, ge=0, description="first rounds, in which lr grows in equal steps; 0: none")

    @property
    def depends_on_rounds(self) -> bool:
        """Does the rate of a round depend on the number of rounds of the run?"""
        return self.lr_schedule == "cosine"

    def schedule(self, rounds: int) -> RateSchedule:
        """Return the learning rate of each round of a run of so many rounds."""
        return RateSchedule(
            self.lr, rounds, self.lr_schedule, self.lr_factor, self.lr_every, self.lr_floor, self.lr_warmup
        )

    def schedule_fault(self, rounds: int) -> str:
        """Return what is wrong with the schedule of a run of so many rounds, as a sentence; empty if nothing is."""
        if self.lr_floor > self.lr:
            return f"[{self.SECTION}] lr_floor = {self.lr_floor}: must be at most lr = {self.lr}"
        if self.lr_warmup >= rounds:
            return f"[{self.SECTION}] lr_warmup = {self.lr_warmup}: must be less than [run] rounds = {rounds}"
        return ""


class ClientsSection(RateSection, _ClientKeys):
    SECTION: ClassVar[str] = "clients"

    lr: float = Field(0.01, ge=0, description="local learning rate, eta_l")  # 0: clients measure gradients at w alone

    @model_validator(mode="after")
    def _looks_ahead_of_something(self) -> Self:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov = true: needs momentum above 0")
        return self


class ServerSection(RateSection, _ServerKeys):
    SECTION: ClassVar[str] = "server"

    @model_validator(mode="after")
    def _looks_ahead_of_something(self) -> Self:
        if self.nesterov and (self.optimizer != "momentum" or self.momentum == 0):
            raise ValueError("nesterov = true: needs optimizer = 'momentum' and momentum above 0")
        return self

    def options(self, clients: ClientsSection) -> ServerOptions:
        """Return how the server moves the model: if clients feed errors back, every received value counts once."""
        once = clients.error_feedback
        return ServerOptions(self.optimizer, self.momentum, self.nesterov, self.beta1, self.beta2, self.epsilon, once)


def training_fault(clients: ClientsSection, server: ServerSection, rounds: int, scheme: Scheme, least: int) -> str:
    """Return which keys do not fit the rest of the run, as a sentence; empty if all do.

    Parameters
    ----------
    rounds
        Rounds of the run.
    scheme
        The clients' payloads are of this scheme.
    least
        Clients that a round needs.
    """
    fault = clients.schedule_fault(rounds) or server.schedule_fault(rounds)
    if fault:
        return fault
    if clients.weighting == "size" and not scheme.scaled:
        return "[clients] weighting = 'size': votes have no magnitude; use [air] mode = 'analog' or weighting = 'equal'"
    count = participant_count(clients.n, clients.fraction)
    if clients.fraction < 1 and count < least:
        return (
            f"[clients] fraction = {clients.fraction}: {count} of {clients.n} clients take part in a round, and the "
            f"radios' rounds need [link] min_clients = {least}; raise the fraction or lower min_clients"
        )
    return ""
