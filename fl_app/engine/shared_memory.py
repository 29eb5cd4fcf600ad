# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand large arrays from one process to others through memory that they share; all else goes through the pipe.

The memory is a file without a name (``memfd_create``): it is in no folder, so that a small /dev/shm does not matter,
and the system frees it when the last process that has it open ends, killed or not. Where there is no such file, or no
memory for it, the arrays go through the pipe as well.

Messages are pickled, as multiprocessing does with its own: they come from processes that this one has started, and the
memory is open in these alone. Messages of other machines (`fl_app.link`) are never pickled.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_BYTES = 1 << 16  # smaller arrays go through the pipe, which holds as much at a time


@dataclass(frozen=True)
class PackedArrays:
    """Hold a message whose large arrays are in the shared memory, at these offsets and of these sizes in bytes."""

    content: bytes
    places: tuple[tuple[int, int], ...]


class Outbox:
    """The writer's side of a shared memory.

    Parameters
    ----------
    file
        Descriptor of the memory; None sends all arrays through the pipe.
    """

    def __init__(self, file: int | None) -> None:
        self.file = file
        self._end = 0

    @classmethod
    def create(cls) -> Outbox:
        """Make a shared memory, which other processes open by its descriptor."""
        try:
            return cls(os.memfd_create("gr-oac"))
        except (AttributeError, OSError):  # not on Linux, or too many open files
            return cls(None)

    def clear(self) -> None:
        """Begin anew; whoever read the earlier messages is done with them."""
        if self.file is not None and self._end:
            os.ftruncate(self.file, self._end)  # the first round is larger than the others
        self._end = 0

    def pack(self, messages: Sequence[Any]) -> list[PackedArrays]:
        """Return the messages without their large arrays. An array that several messages have is written once."""
        places: dict[tuple[int, int], tuple[int, int]] = {}  # by address and size in bytes
        packed = []
        for message in messages:
            own: list[tuple[int, int]] = []

            def stays_inside(buffer: pickle.PickleBuffer, own: list[tuple[int, int]] = own) -> bool:
                array = np.frombuffer(buffer.raw(), np.uint8)
                name = array.ctypes.data, array.size
                place = places.get(name) or self._write(array)
                if place is None:
                    return True
                places[name] = place
                own.append(place)
                return False

            packed.append(PackedArrays(pickle.dumps(message, protocol=5, buffer_callback=stays_inside), tuple(own)))
        return packed

    def _write(self, array: NDArray[np.uint8]) -> tuple[int, int] | None:
        """Write an array and return its place; None if it is small, or if there is no memory for it."""
        if self.file is None or array.size < LEAST_BYTES:
            return None
        written = 0
        with contextlib.suppress(OSError):
            while written < array.size:
                written += os.pwrite(self.file, array[written:].data, self._end + written)
        if written < array.size:
            return None
        place = self._end, array.size
        self._end += -(-array.size // mmap.PAGESIZE) * mmap.PAGESIZE
        return place

    def hand_over(self, connection: Connection, process: int) -> None:
        """Open the memory in the process at the other end of a pipe, which calls `take_over`."""
        connection.send(self.file is not None)
        if self.file is not None:
            send_handle(connection, self.file, process)

    def close(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None


def take_over(connection: Connection) -> int | None:
    """Return the descriptor of the memory that `hand_over` opens; None if there is none."""
    return recv_handle(connection) if connection.recv() else None


def read_in_place(packed: PackedArrays, file: int | None) -> Any:
    """Return the message of another process, its arrays where they are: valid until that process sends the next one.

    What is written into these arrays changes only this process's own copy.
    """
    if not packed.places or file is None:
        return pickle.loads(packed.content)
    end = max(offset + size for offset, size in packed.places)
    view = memoryview(mmap.mmap(file, end, access=mmap.ACCESS_COPY))
    return pickle.loads(packed.content, buffers=[view[offset : offset + size] for offset, size in packed.places])


def read_copy(packed: PackedArrays, file: int | None) -> Any:
    """Return the message of another process with arrays of its own."""
    if not packed.places or file is None:
        return pickle.loads(packed.content)
    buffers = []
    for offset, size in packed.places:
        buffer, read = memoryview(bytearray(size)), 0
        while read < size:
            count = os.preadv(file, [buffer[read:]], offset + read)
            if count == 0:
                raise EOFError(f"the shared memory ends before {offset + size} bytes")
            read += count
        buffers.append(buffer)
    return pickle.loads(packed.content, buffers=buffers)
