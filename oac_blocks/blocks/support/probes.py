# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of the probes: it pairs received PDUs with their references, and each pair gives a number."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops

_MAX_PENDING = 256  # PDUs of one side that wait for the other side

Key = tuple[str, int]


class _Side:
    """PDUs of one port that are not paired yet, identified by their round or, without a round, by their order."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = dtype
        self.pending: dict[Key, npt.NDArray[Any]] = {}
        self._without_round = 0

    def key(self, metadata: pdus.Metadata) -> Key:
        number = metadata.get("round")
        if number is not None and pmt.is_integer(number):
            return "round", pmt.to_long(number)
        self._without_round += 1
        return "place", self._without_round


class Probe(gr.sync_block):
    """Output a float for each pair, and send a dictionary for each pair on a message port."""

    def __init__(self, name: str, port: str, dtype: npt.DTypeLike, reference_dtype: npt.DTypeLike, report: str) -> None:
        gr.sync_block.__init__(self, name=name, in_sig=None, out_sig=[np.float32])
        self._received, self._reference = _Side(dtype), _Side(reference_dtype)
        self._values: deque[float] = deque()
        self._drops = Drops(self.logger)
        self._report = pmt.intern(report)
        self.message_port_register_in(pmt.intern(port))
        self.message_port_register_in(pmt.intern("reference"))
        self.message_port_register_out(self._report)
        self.set_msg_handler(pmt.intern(port), self._on_received)
        self.set_msg_handler(pmt.intern("reference"), self._on_reference)

    def compare(self, received: npt.NDArray[Any], reference: npt.NDArray[Any]) -> tuple[float, pdus.Metadata] | str:
        """Return the pair's number and report, or the reason why there is none."""
        raise NotImplementedError

    @property
    def dropped(self) -> int:
        """Return the number of PDUs that could not be compared."""
        return self._drops.count

    def _on_received(self, message: Any) -> None:
        self._on_message(message, self._received, self._reference)

    def _on_reference(self, message: Any) -> None:
        self._on_message(message, self._reference, self._received)

    def _on_message(self, message: Any, own: _Side, other: _Side) -> None:
        pdu = pdus.read(message, own.dtype)
        if isinstance(pdu, str):
            self._drops.add(pdu)
            return
        key = own.key(pdu.metadata)
        counterpart = other.pending.pop(key, None)
        if counterpart is not None:
            pair = (pdu.data, counterpart) if own is self._received else (counterpart, pdu.data)
            self._publish(self.compare(*pair), key)
            return
        own.pending[key] = pdu.data
        if len(own.pending) > _MAX_PENDING:
            own.pending.pop(next(iter(own.pending)))
            self._drops.add(f"{_MAX_PENDING} PDUs already wait for their counterpart")

    def _publish(self, outcome: tuple[float, pdus.Metadata] | str, key: Key) -> None:
        if isinstance(outcome, str):
            self._drops.add(outcome)
            return
        value, report = outcome
        self._values.append(value)
        if key[0] == "round":
            report["round"] = key[1]
        self.message_port_pub(self._report, pdus.to_dict(report))

    def work(self, _input_items: Any, output_items: Any) -> int:
        out = output_items[0]
        n = min(len(out), len(self._values))
        out[:n] = [self._values.popleft() for _ in range(n)]
        return n
