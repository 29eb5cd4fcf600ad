# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server's desk works with: the run's terms, a client's session, a job and its answers, what goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fl_app.link.downlink import Arrays
from fl_app.link.wire import NO_ROUND, Frame
from oac_blocks.dsp.waveform.schemes import Scheme

JobKind = Literal["train", "measure"]
State = Literal["preparing", "ready"]
# Where a client's payload goes: to the server with `done`; to the client's own radio, when the server says for which of
# the radio's rounds; or both, where the server compares what it heard with what was sent.
PayloadTo = Literal["server", "radio", "both"]
PAYLOAD_TO: tuple[PayloadTo, ...] = get_args(PayloadTo)

HASH_CHARS = 64


@dataclass(frozen=True, eq=False)
class Terms:
    """What holds for the whole run."""

    n_clients: int
    d: int
    scheme: Scheme
    eta: float
    config: str  # TOML
    config_hash: str
    fingerprint: str
    heartbeat_seconds: float
    silent_seconds: float
    cut_off_after: int
    buffers: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)  # name -> dtype, shape
    admitted: Mapping[str, int] | None = None  # public key -> client's number; None without CURVE
    payload_to: PayloadTo = "server"

    @property
    def max_bytes(self) -> int:
        """Of a client's message: no payload is larger than the model in float32."""
        buffers = sum(8 * int(np.prod(shape)) for _, shape in self.buffers.values())
        return 4 * self.d + buffers + 100_000


@dataclass(frozen=True, eq=False)
class Outgoing:
    identity: bytes
    frames: Sequence[Frame]
    kind: str


@dataclass(eq=False)
class Session:
    """A client that has joined, as long as its connection lasts."""

    identity: bytes
    client: int
    instance: str  # drawn by the client when it starts: tells its second connection from a second client
    heard: float  # when, on the clock of `now`
    received: int  # the last sequence
    state: State = "preparing"
    sent: int = 0  # our last sequence
    model_state: int = NO_ROUND  # the round whose start its copy of the model stands at, as far as we know
    told: float = float("-inf")  # when it was last told of the open job
    modelled: float = float("-inf")  # when the whole model last went to it
    answered: int = NO_ROUND  # the last round that it answered
    late: int = 0
    seconds: float | None = None  # that its last answer took


@dataclass(frozen=True, eq=False)
class Answer:
    """What a client has for a job. Training: payload, loss; `sent` is False where the gradients are not finite, and the
    payload is None also where it goes by radio alone. Measuring: arrays."""

    client: int
    seconds: float
    loss: float = 0.0
    sent: bool = False
    payload: NDArray[Any] | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(eq=False)
class Job:
    kind: JobKind
    round: int
    k: int
    answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.round}"


@dataclass(frozen=True, eq=False)
class Packed:
    """Arrays as they go out, made once for all clients."""

    declared: list[tuple[str, str, list[int]]]
    frames: list[bytes]

    @classmethod
    def of(cls, arrays: Arrays) -> Packed:
        declared = [(name, array.dtype.name, list(array.shape)) for name, array in arrays.items()]
        return cls(declared, [np.ascontiguousarray(array).tobytes() for array in arrays.values()])


NOTHING = Packed([], [])
