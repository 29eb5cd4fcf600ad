# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the majority of the clients' votes, which the server should decide for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.dsp.checks import integer

_VOTES, _MAJORITY = pmt.intern("votes"), pmt.intern("majority")
_MAX_WAITING_ROUNDS = 256


class vote_majority(gr.basic_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Vote majority: computes the sign of the sum of ``clients`` PDUs of votes with the same ``round``; 0 is a tie.

    Message port ``votes`` takes PDUs of int8; connect all sources of votes to it. Message port ``majority`` sends PDUs
    of int8, which serve as the reference of a vote probe.
    """

    def __init__(self, clients: int = 2) -> None:
        self._clients = integer("clients", clients, 1, 127)
        gr.basic_block.__init__(self, name="OAC Vote Majority", in_sig=None, out_sig=None)
        self._waiting: dict[int, list[npt.NDArray[np.int8]]] = {}
        self._drops = Drops(self.logger)
        self.message_port_register_in(_VOTES)
        self.message_port_register_out(_MAJORITY)
        self.set_msg_handler(_VOTES, self._on_votes)

    @property
    def dropped(self) -> int:
        """Return the number of PDUs, or whole rounds, that gave no majority."""
        return self._drops.count

    def start(self) -> bool:
        self._waiting.clear()
        return True

    def _on_votes(self, message: Any) -> None:
        pdu = pdus.read(message, np.int8)
        if isinstance(pdu, str):
            self._drops.add(pdu)
            return
        number = pdu.metadata.get("round")
        if number is None or not pmt.is_integer(number):
            self._drops.add("votes must have a round in their metadata")
            return
        ballots = self._waiting.setdefault(pmt.to_long(number), [])
        ballots.append(pdu.data)
        if len(ballots) == self._clients:
            self._count(pmt.to_long(number), self._waiting.pop(pmt.to_long(number)))
        elif len(self._waiting) > _MAX_WAITING_ROUNDS:
            self._waiting.pop(next(iter(self._waiting)))
            self._drops.add(f"{_MAX_WAITING_ROUNDS} rounds already wait for the rest of their votes")

    def _count(self, number: int, ballots: list[npt.NDArray[np.int8]]) -> None:
        lengths = {len(ballot) for ballot in ballots}
        if len(lengths) > 1:
            self._drops.add(f"round {number} has votes of different lengths, {sorted(lengths)}")
            return
        total = np.sum(ballots, axis=0, dtype=np.int32)
        self.message_port_pub(_MAJORITY, pdus.make(np.sign(total).astype(np.int8), {"round": number}))
