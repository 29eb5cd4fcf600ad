# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert PDUs to bursts of a tagged stream and bursts to PDUs, for mappers and detectors.

GNU Radio's own blocks for this keep a whole burst in a stream buffer and stop for good if a burst is larger than the
buffer. The blocks here process as much as the buffers hold at a time, so a burst may have any length.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.waveform.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]
MAX_WAITING_BURSTS = 1024
# Symbols in a buffer; this size lets Python process many symbols at a time and does not limit the burst.
BUFFER_SYMBOLS = 512


def grid_numerology(active_subcarriers: int) -> Numerology:
    """Return a numerology for blocks that see only the active subcarriers and need not know their frequencies."""
    active = integer("active_subcarriers", active_subcarriers, 4)
    return Numerology(fft_size=max(8, active + active % 2), cp_samples=0, active_subcarriers=active, dc_nulls=0)


def tag_name(name: Any) -> str:
    """Return ``name`` if it can name a tag; raise ``ValueError`` otherwise."""
    require(isinstance(name, str) and name != "", "length_tag", repr(name), "a non-empty string")
    return str(name)


class Drops:
    """Count what a block could not use, and log the first case only.

    A log line for each of a thousand bursts would help nobody. ``what`` names the dropped things if a block drops only
    one kind; otherwise the reasons should name them.
    """

    def __init__(self, logger: Any, what: str = "") -> None:
        self.count = 0
        self._logger, self._dropped = logger, f"dropped {what}".strip()

    def add(self, reason: str) -> None:
        """Count one dropped thing, and log the first with its reason."""
        self.count += 1
        if self.count == 1:
            self._logger.warn(f"{self._dropped}: {reason} (further ones are counted, not logged)")


class BurstSource(gr.sync_block):
    """Send a burst of complex vectors for each PDU; between bursts sleep until a message arrives.

    The first item of the burst carries the length tag (in items) and the PDU's metadata as tags.
    """

    def __init__(self, name: str, port: str, dtype: npt.DTypeLike, vector_length: int, length_tag: str) -> None:
        gr.sync_block.__init__(self, name=name, in_sig=None, out_sig=[(np.complex64, vector_length)])
        self._dtype = dtype
        self._length_tag = tag_name(length_tag)
        self._waiting: deque[pdus.Pdu] = deque()
        self._rest: ComplexArray = np.empty((0, vector_length), np.complex64)
        self._drops = Drops(self.logger, "a burst")
        self.set_min_output_buffer(BUFFER_SYMBOLS)
        self.message_port_register_in(pmt.intern(port))
        self.set_msg_handler(pmt.intern(port), self._on_message)

    def encode(self, data: npt.NDArray[Any]) -> ComplexArray:
        """Return the grid (symbols, subcarriers) for the data of a PDU; a ValueError drops the burst."""
        raise NotImplementedError

    def start(self) -> bool:
        """Discard bursts in progress, because a flowgraph that is started again counts its items from 0."""
        self._rest = self._rest[:0]
        return True

    @property
    def dropped(self) -> int:
        """Return the number of PDUs that could not be sent."""
        return self._drops.count

    def _on_message(self, message: Any) -> None:
        pdu = pdus.read(message, self._dtype)
        if isinstance(pdu, str):
            self._drops.add(pdu)
        elif len(self._waiting) == MAX_WAITING_BURSTS:
            self._drops.add(f"{MAX_WAITING_BURSTS} bursts already wait to be sent")
        else:
            self._waiting.append(pdu)

    def work(self, _input_items: Any, output_items: Any) -> int:
        out, produced = output_items[0], 0
        while produced < len(out):
            if not len(self._rest) and not self._begin(self.nitems_written(0) + produced):
                break
            some = self._rest[: len(out) - produced]
            out[produced : produced + len(some)] = some
            produced += len(some)
            self._rest = self._rest[len(some) :]
        return produced

    def _begin(self, offset: int) -> bool:
        """Make the next possible burst; return False if none waits."""
        while self._waiting:
            pdu = self._waiting.popleft()
            try:
                self._rest = self.encode(pdu.data)
            except Exception as error:  # an exception that leaves work() would end the thread and hang the flowgraph
                self._drops.add(str(error))
                continue
            self.add_item_tag(0, offset, pmt.intern(self._length_tag), pmt.from_long(len(self._rest)))
            for name, value in pdu.metadata.items():
                if name != self._length_tag:
                    self.add_item_tag(0, offset, pmt.intern(name), value)
            return True
        return False


class BurstSink(gr.sync_block):
    """Send a PDU for each burst of complex vectors; the burst's other tags become the PDU's metadata.

    Items outside of bursts are skipped. A burst that is cut short by a new one is dropped.
    """

    def __init__(self, name: str, port: str, vector_length: int, length_tag: str) -> None:
        gr.sync_block.__init__(self, name=name, in_sig=[(np.complex64, vector_length)], out_sig=None)
        self._length_tag = tag_name(length_tag)
        self._port = pmt.intern(port)
        self._parts: list[ComplexArray] = []
        self._missing = 0
        self._metadata: pdus.Metadata = {}
        self._drops = Drops(self.logger, "a burst")
        self.message_port_register_out(self._port)

    def decode(self, grid: ComplexArray) -> npt.NDArray[Any]:
        """Return the data of a PDU for a burst (symbols, subcarriers); a ValueError drops the burst."""
        raise NotImplementedError

    def start(self) -> bool:
        """Discard the burst in progress, because a flowgraph that is started again counts its items from 0."""
        self._parts, self._missing, self._metadata = [], 0, {}
        return True

    @property
    def dropped(self) -> int:
        """Return the number of bursts that gave no PDU."""
        return self._drops.count

    def work(self, input_items: Any, _output_items: Any) -> int:
        items, first, position = input_items[0], self.nitems_read(0), 0
        for tag in sorted(self.get_tags_in_window(0, 0, len(items)), key=self._in_order):
            at = tag.offset - first
            self._take(items[position:at])
            position = at
            name = pmt.symbol_to_string(tag.key)
            if name == self._length_tag:
                self._begin(tag.value)
            elif self._missing:
                self._metadata[name] = tag.value
        self._take(items[position:])
        return len(items)

    def _in_order(self, tag: Any) -> tuple[int, bool]:
        """Return a sort key: by position, and the length tag first, because it begins the burst of the other tags."""
        return tag.offset, pmt.symbol_to_string(tag.key) != self._length_tag

    def _begin(self, length: Any) -> None:
        if self._parts:
            self._drops.add(f"a new burst began while {self._missing} symbols of the last one were missing")
        self._parts, self._metadata = [], {}
        self._missing = pmt.to_long(length) if pmt.is_integer(length) else 0
        if self._missing < 1:
            self._missing = 0
            self._drops.add(f"tag {self._length_tag} must be an integer >= 1, got {length}")

    def _take(self, items: ComplexArray) -> None:
        some = items[: self._missing]
        if not len(some):
            return
        self._parts.append(some.copy())  # GNU Radio overwrites the buffer after work() returns
        self._missing -= len(some)
        if not self._missing:
            self._finish()

    def _finish(self) -> None:
        grid, self._parts = np.concatenate(self._parts), []
        try:
            message = pdus.make(self.decode(grid), self._metadata)
        except Exception as error:  # an exception that leaves work() would end the thread and hang the flowgraph
            self._drops.add(str(error))
            return
        self.message_port_pub(self._port, message)
