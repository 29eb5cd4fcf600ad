# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the data of the server's desk: the run's terms, a session, a job and its answers, outgoing messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fl_app.core.steps.server_step import ServerOptions
from fl_app.link.downlink import Arrays
from fl_app.link.wire import NO_ROUND, Frame
from oac_blocks.dsp.waveform.schemes import Scheme

JobKind = Literal["train", "measure", "residual"]
FOLLOW = "follow"  # kind of work for a client that is asked for nothing but to bring its copy of the model up to date
JOB_KINDS: tuple[JobKind, ...] = get_args(JobKind)
State = Literal["preparing", "ready"]
# Where a client's payload goes: to the server with `done`; to the client's own radio, when the server names the
# radio's round for it; or to both, so that the server can compare what it heard with what was sent.
PayloadTo = Literal["server", "radio", "both"]
PAYLOAD_TO: tuple[PayloadTo, ...] = get_args(PayloadTo)

# Type of the message that answers a job.
ANSWERS: Mapping[JobKind, str] = {"train": "done", "measure": "statistics", "residual": "residual"}
Residuals = Mapping[int, NDArray[Any]]  # what clients have not sent yet, by their number

HASH_CHARS = 64
INSTANCE_CHARS = 64
# Largest RMS or peak of gradient entries that a client may report; float32 holds what follows from it.
MOST_LEVEL = 1e18


@dataclass(frozen=True, eq=False)
class Terms:
    """Hold what is the same during the whole run."""

    n_clients: int
    d: int
    scheme: Scheme
    optimizer: ServerOptions
    config: str  # TOML
    config_hash: str
    fingerprint: str
    heartbeat_seconds: float
    silent_seconds: float
    cut_off_after: int
    buffers: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)  # name -> dtype, shape
    admitted: Mapping[str, int] | None = None  # public key -> client's number; None without CURVE
    payload_to: PayloadTo = "server"

    def welcome(self) -> dict[str, Any]:
        """Return what every client is told first."""
        names = ("config", "config_hash", "fingerprint", "d", "payload_to", "heartbeat_seconds", "silent_seconds")
        return {name: getattr(self, name) for name in names}

    def arrays_of(self, kind: JobKind) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """Return dtype and shape of the arrays in the answer to a job other than training, by name."""
        return self.buffers if kind == "measure" else {"residual": ("float32", (self.d,))}

    @property
    def max_bytes(self) -> int:
        """Return the largest size of a client's message: no payload is larger than the model in float32."""
        buffers = sum(8 * int(np.prod(shape)) for _, shape in self.buffers.values())
        return 4 * self.d + buffers + 100_000


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Hold one message to a connection."""

    identity: bytes
    frames: Sequence[Frame]
    kind: str


@dataclass(eq=False)
class Session:
    """Hold the state of a client that has joined, while its connection lasts."""

    identity: bytes
    client: int
    instance: str  # drawn by the client at its start: tells its second connection from a second client
    heard: float  # time of its last message, on the clock of `now`
    received: int  # its last sequence number
    state: State = "preparing"
    sent: int = 0  # the server's last sequence number to it
    model_state: int = NO_ROUND  # the round at whose start its copy of the model stands, as far as the server knows
    told: float = float("-inf")  # when it was last told of the open job
    modelled: float = float("-inf")  # when the whole model was last sent to it
    answered: int = NO_ROUND  # the last round that it answered
    late: int = 0
    seconds: float | None = None  # duration of its last answer


@dataclass(frozen=True, eq=False)
class ClientAnswer:
    """Hold a client's answer to a job.

    For training this is payload and loss. `sent` is False if the gradients are not finite. The payload is None then,
    and also if it goes by radio alone. `levels` are RMS and peak of its entries, in a scaled scheme by radio. For a
    measurement this is the arrays.
    """

    client: int
    seconds: float
    loss: float = 0.0
    sent: bool = False
    payload: NDArray[Any] | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    levels: tuple[float, float] | None = None


@dataclass(eq=False)
class Job:
    """Hold the work that some clients are asked for, and their answers so far; the others only follow the model."""

    kind: JobKind
    round: int
    k: int
    clients: frozenset[int]
    answers: dict[int, ClientAnswer] = field(default_factory=dict)

    @property
    def due(self) -> frozenset[int]:
        """Return the clients that have not answered yet."""
        return self.clients - self.answers.keys()

    @property
    def title(self) -> str:
        return f"{self.kind} {self.round}"


@dataclass(frozen=True, eq=False)
class Packed:
    """Hold arrays as they are sent, packed once for all clients."""

    declared: list[tuple[str, str, list[int]]]
    frames: list[bytes]

    @classmethod
    def of(cls, arrays: Arrays) -> Packed:
        declared = [(name, array.dtype.name, list(array.shape)) for name, array in arrays.items()]
        return cls(declared, [np.ascontiguousarray(array).tobytes() for array in arrays.values()])

    def __add__(self, other: Packed) -> Packed:
        return Packed(self.declared + other.declared, self.frames + other.frames)


NOTHING = Packed([], [])
