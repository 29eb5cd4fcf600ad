# SPDX-License-Identifier: GPL-3.0-or-later
"""How often are the received votes wrong?"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks import pdus
from oac_blocks.bursts import Drops

_SOFT_VOTES, _REFERENCE, _ERROR_RATE = (pmt.intern(name) for name in ("soft_votes", "reference", "error_rate"))
_MAX_PENDING = 256  # bursts of one side that wait for the other

Key = tuple[str, int]


class _Side:
    """What came on one port and has not met its counterpart. With a round it is known by that, else by its place."""

    def __init__(self) -> None:
        self.pending: dict[Key, npt.NDArray[Any]] = {}
        self._without_round = 0

    def key(self, metadata: pdus.Metadata) -> Key:
        number = metadata.get("round")
        if number is not None and pmt.is_integer(number):
            return "round", pmt.to_long(number)
        self._without_round += 1
        return "place", self._without_round


class vote_probe(gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Vote probe: error rate of soft votes against a reference.

    Message ports ``soft_votes`` (PDUs of float32) and ``reference`` (PDUs of int8 as u8vector; where it is 0 nothing is
    compared). Two PDUs belong together if they have the same ``round`` in their metadata; those without a round are
    taken in the order in which they come.
    Output: a float for each pair, the share of wrong votes. Message port ``error_rate``: a dictionary for each pair
    with ``round`` (if there is one), ``errors``, ``votes``, ``error_rate`` and ``mean_error_rate`` since the start or
    the last ``reset``.
    """

    def __init__(self) -> None:
        gr.sync_block.__init__(self, name="OAC Vote Probe", in_sig=None, out_sig=[np.float32])
        self._soft, self._reference = _Side(), _Side()
        self._rates: deque[float] = deque()
        self._drops = Drops(self.logger)
        self.reset()
        self.message_port_register_in(_SOFT_VOTES)
        self.message_port_register_in(_REFERENCE)
        self.message_port_register_out(_ERROR_RATE)
        self.set_msg_handler(_SOFT_VOTES, self._on_soft_votes)
        self.set_msg_handler(_REFERENCE, self._on_reference)

    @property
    def dropped(self) -> int:
        """PDUs that could not be compared."""
        return self._drops.count

    @property
    def mean_error_rate(self) -> float:
        """Share of wrong votes in all bursts; NaN before the first."""
        errors, votes = self._totals
        return errors / votes if votes else float("nan")

    def reset(self) -> None:
        """Begin the mean anew."""
        self._totals = (0, 0)

    def _on_soft_votes(self, message: Any) -> None:
        self._on_message(message, np.float32, self._soft, self._reference)

    def _on_reference(self, message: Any) -> None:
        self._on_message(message, np.int8, self._reference, self._soft)

    def _on_message(self, message: Any, dtype: npt.DTypeLike, own: _Side, other: _Side) -> None:
        pdu = pdus.read(message, dtype)
        if isinstance(pdu, str):
            self._drops.add(pdu)
            return
        key = own.key(pdu.metadata)
        counterpart = other.pending.pop(key, None)
        if counterpart is not None:
            soft, reference = (pdu.data, counterpart) if own is self._soft else (counterpart, pdu.data)
            self._compare(soft, reference, key)
            return
        own.pending[key] = pdu.data
        if len(own.pending) > _MAX_PENDING:
            own.pending.pop(next(iter(own.pending)))
            self._drops.add(f"{_MAX_PENDING} PDUs wait for their counterpart already")

    def _compare(self, soft: npt.NDArray[np.float32], reference: npt.NDArray[np.int8], key: Key) -> None:
        votes = int(np.count_nonzero(reference))
        if len(soft) != len(reference) or not votes:
            self._drops.add(f"cannot compare {len(soft)} soft votes with {len(reference)}, {votes} of them not 0")
            return
        errors = votes - int(np.count_nonzero(soft * reference > 0))
        self._totals = (self._totals[0] + errors, self._totals[1] + votes)
        self._rates.append(errors / votes)
        report: pdus.Metadata = {
            "errors": errors,
            "votes": votes,
            "error_rate": errors / votes,
            "mean_error_rate": self.mean_error_rate,
        }
        if key[0] == "round":
            report["round"] = key[1]
        self.message_port_pub(_ERROR_RATE, pdus.to_dict(report))

    def work(self, _input_items: Any, output_items: Any) -> int:
        out = output_items[0]
        n = min(len(out), len(self._rates))
        out[:n] = [self._rates.popleft() for _ in range(n)]
        return n
