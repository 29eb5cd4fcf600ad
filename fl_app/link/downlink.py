# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the change of the model instead of the model: from round t to t + 1 a client needs g_t on S_t, and S_{t+1}.

A client knows S_t, w_t and the older entries of g, which are applied once more. So it computes w_{t+1} by itself, with
the server's own step (`fl_app.core.steps.server_step`) and to the same bits. The learning rate of the round comes with
the change: a cosine or a power is not rounded alike by every C library. The scheme decides which part of g the client
needs and how it is packed. S_{t+1} takes one bit for each entry of the model, d/8 bytes:

| | one-bit | analog |
|---|---|---|
| g_t on S_t | one bit per entry, k/8 bytes; another k/8 if some entries are exactly zero | float32, 4k bytes |

The whole model goes to a client that joins or whose checksum differs, with what the server's optimizer remembers.
Clients do not need the ages: only the server and its policy use them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.server import Server
from fl_app.core.steps.server_step import STEP_PREFIX, ServerOptions, ServerStep
from fl_app.link.wire import Message, WireError
from oac_blocks.dsp.waveform.schemes import Scheme, scheme_from_outside
from oac_blocks.dsp.waveform.schemes.bits import pack_bits, packed_bytes, unpack_bits

Arrays = dict[str, NDArray[Any]]


def mask_of(selected: NDArray[np.int64], d: int) -> NDArray[np.uint8]:
    """Pack a selection into a mask of one bit for each of the d entries."""
    flags = np.zeros(d, np.bool_)
    flags[selected] = True
    return pack_bits(flags)


def checksum(w: NDArray[np.float32], memory: NDArray[Any], mask: NDArray[np.uint8], step: ServerStep) -> str:
    """Return a checksum of all that determines a client's next rounds."""
    digest = hashlib.sha256()  # the fastest hash of hashlib on common processors
    for array in (w, memory, mask, *step.arrays().values()):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def checksum_of(server: Server) -> str:
    """Return the checksum that a client with the server's present state must have."""
    return checksum(server.w, server.scheme.remember(server.g), mask_of(server.selected, server.d), server.step)


def whole_model(server: Server) -> Arrays:
    """Return what a joining client needs: w, the part of g that a client keeps, S, and the optimizer's arrays."""
    memory = server.scheme.remember(server.g)
    remembered = {STEP_PREFIX + name: array for name, array in server.step.arrays().items()}
    return {"w": server.w, "memory": memory, "mask": mask_of(server.selected, server.d), **remembered}


def change_of(server: Server, sent: NDArray[np.int64]) -> Arrays:
    """Return the change after `server.update`: g on the entries that were sent, and the next selection."""
    return {**server.scheme.pack(server.g[sent]), "mask": mask_of(server.selected, server.d)}


def size_of(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return the number of bytes of all arrays."""
    return sum(array.nbytes for array in arrays.values())


class Replica:
    """Hold a client's copy of the part of the server's state that it needs."""

    def __init__(
        self, scheme: Scheme, step: ServerStep, w: NDArray[np.float32], memory: NDArray[Any], mask: NDArray[np.uint8]
    ):
        self.scheme, self.step, self.d = scheme, step, w.size
        self.w: NDArray[np.float32] = np.array(w, np.float32)  # a native, writable copy
        self.memory: NDArray[Any] = np.array(memory, scheme.memory_dtype)
        self._select(mask)

    @classmethod
    def from_message(cls, message: Message, d: int) -> Replica:
        """Make the replica from the arrays of `whole_model`."""
        scheme, step = scheme_of(message), options_of(message).make(d)
        own = step.arrays()
        step.load_arrays(
            {name: message.array(STEP_PREFIX + name, array.dtype.name, *array.shape) for name, array in own.items()}
        )
        memory = message.array("memory", scheme.memory_dtype.name, d)
        w, mask = message.array("w", "float32", d), message.array("mask", "uint8", packed_bytes(d))
        return cls(scheme, step, w, memory, mask)

    def apply(self, message: Message) -> None:
        """Apply the arrays of `change_of` with the rate `eta`; all is checked before anything changes."""
        k, eta = self.selected.size, message.amount("eta")
        mask = message.array("mask", "uint8", packed_bytes(self.d))
        self.memory[self.selected] = self._fresh(message, k)
        self.w = self.step.move(self.w, self.scheme.direction(self.memory), self.selected, eta)
        self._select(mask)

    def _select(self, mask: NDArray[np.uint8]) -> None:
        self.mask: NDArray[np.uint8] = np.array(mask)
        self.selected: NDArray[np.int64] = np.flatnonzero(unpack_bits(mask, self.d))

    def _fresh(self, message: Message, k: int) -> NDArray[Any]:
        due = [one for one in self.scheme.downlink_fields(k) if not one.optional or one.name in message.arrays]
        return self.scheme.unpack({one.name: message.array(one.name, one.dtype, one.size) for one in due}, k)

    def checksum(self) -> str:
        return checksum(self.w, self.memory, self.mask, self.step)


def scheme_of(message: Message) -> Scheme:
    """Return the scheme that a message names; WireError if this process knows none of this name."""
    try:
        return scheme_from_outside(message.text("mode", 256))
    except ValueError as error:
        raise WireError(f"{message.type}: {error}") from None


def options_of(message: Message) -> ServerOptions:
    """Return the server's optimizer that a message names; WireError if this process knows none of this name."""
    numbers = {name: message.amount(name) for name in ("momentum", "beta1", "beta2", "epsilon")}
    try:
        nesterov, once = message.flag("nesterov"), message.flag("fresh_only")
        return ServerOptions(message.text("optimizer", 64), nesterov=nesterov, fresh_only=once, **numbers)
    except ValueError as error:
        raise WireError(f"{message.type}: {error}") from None
