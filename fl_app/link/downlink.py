# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed, instead of the model: from round t to t + 1 a client needs g_t on S_t, and S_{t+1}.

It knows S_t, w_t and the older entries of g, which are applied once more; so it computes w_{t+1} by itself, with the
server's own line (`fl_app.core.server.step`) and to the same bits. In one-bit mode only the signs of g move the model:

| | one-bit | analog |
|---|---|---|
| g_t on S_t | a bit an entry, k/8 bytes; another k/8 where some are exactly zero | float32, 4k bytes |
| S_{t+1} | a bit an entry of the model, d/8 bytes | the same |

The whole model goes to who joins, or whose checksum differs. A client has no use for the ages: these are between the
server and its policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.air.base import Mode
from fl_app.core.server import Server, direction_of, step
from fl_app.link.wire import Message, WireError

Arrays = dict[str, NDArray[Any]]


def pack_bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(flags, bitorder="little")


def unpack_bits(packed: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)


def packed_bytes(count: int) -> int:
    return -(-count // 8)


def mask_of(selected: NDArray[np.int64], d: int) -> NDArray[np.uint8]:
    flags = np.zeros(d, np.bool_)
    flags[selected] = True
    return pack_bits(flags)


def memory_of(g: NDArray[np.float32], mode: Mode) -> NDArray[Any]:
    """What a client keeps of g: its signs (int8) in one-bit mode, all of it in analog mode."""
    return np.sign(g).astype(np.int8) if mode == "onebit" else g


def checksum(w: NDArray[np.float32], memory: NDArray[Any], mask: NDArray[np.uint8]) -> str:
    """Of all that a client's next rounds follow from."""
    digest = hashlib.sha256()  # processors compute it faster than any other of hashlib's
    for array in (w, memory, mask):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def checksum_of(server: Server) -> str:
    return checksum(server.w, memory_of(server.g, server.mode), mask_of(server.selected, server.d))


def whole_model(server: Server) -> Arrays:
    """For who joins: w, what a client keeps of g, and S."""
    memory = memory_of(server.g, server.mode)
    return {"w": server.w, "memory": memory, "mask": mask_of(server.selected, server.d)}


def change_of(server: Server, sent: NDArray[np.int64]) -> Arrays:
    """After `server.update`: g on the entries that were sent, and the next selection."""
    fresh = server.g[sent]
    mask = mask_of(server.selected, server.d)
    if server.mode == "analog":
        return {"values": fresh, "mask": mask}
    zeros = fresh == 0
    change: Arrays = {"signs": pack_bits(fresh > 0), "mask": mask}
    if zeros.any():  # ties in the ideal air, or everybody abstained: a third value, sent where it occurs
        change["zeros"] = pack_bits(zeros)
    return change


def size_of(arrays: Mapping[str, NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays.values())


class Replica:
    """A client's copy of what it needs of the server's state."""

    def __init__(self, mode: Mode, eta: float, w: NDArray[np.float32], memory: NDArray[Any], mask: NDArray[np.uint8]):
        self.mode, self.eta, self.d = mode, eta, w.size
        self.w: NDArray[np.float32] = np.array(w, np.float32)  # native, writable, our own
        self.memory: NDArray[Any] = np.array(memory, np.int8 if mode == "onebit" else np.float32)
        self._select(mask)

    @classmethod
    def from_message(cls, message: Message, d: int) -> Replica:
        """From the arrays of `whole_model`."""
        mode, eta = mode_of(message), message.number("eta")
        memory = message.array("memory", "int8" if mode == "onebit" else "float32", d)
        w, mask = message.array("w", "float32", d), message.array("mask", "uint8", packed_bytes(d))
        return cls(mode, eta, w, memory, mask)

    def apply(self, message: Message) -> None:
        """The arrays of `change_of`, checked before anything is changed."""
        k = self.selected.size
        mask = message.array("mask", "uint8", packed_bytes(self.d))
        self.memory[self.selected] = self._fresh(message, k)
        direction = self.memory.astype(np.float32) if self.mode == "onebit" else direction_of(self.memory, self.mode)
        self.w = step(self.w, direction, self.eta)
        self._select(mask)

    def _select(self, mask: NDArray[np.uint8]) -> None:
        self.mask: NDArray[np.uint8] = np.array(mask)
        self.selected: NDArray[np.int64] = np.flatnonzero(unpack_bits(mask, self.d))

    def _fresh(self, message: Message, k: int) -> NDArray[Any]:
        if self.mode == "analog":
            return message.array("values", "float32", k)
        signs = np.where(unpack_bits(message.array("signs", "uint8", packed_bytes(k)), k), np.int8(1), np.int8(-1))
        if "zeros" in message.arrays:
            signs[unpack_bits(message.array("zeros", "uint8", packed_bytes(k)), k)] = 0
        return signs

    def checksum(self) -> str:
        return checksum(self.w, self.memory, self.mask)


def mode_of(message: Message) -> Mode:
    mode = message.text("mode", 16)
    if mode == "onebit":
        return "onebit"
    if mode == "analog":
        return "analog"
    raise WireError(f"{message.type}: mode must be onebit or analog")
