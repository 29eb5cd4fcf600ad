# SPDX-License-Identifier: GPL-3.0-or-later
"""Random votes to try a link with, at a pace or on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pmt
from gnuradio import blocks, gr

from oac_blocks import pdus
from oac_blocks.dsp.checks import integer, real

_NEXT, _TICK, _VOTES = (pmt.intern(name) for name in ("next", "tick", "votes"))
_IDLE_PERIOD_MS = 1000


class _Voter(gr.basic_block):
    """A PDU of votes for each message; ticks of the clock count only while it is switched on."""

    def __init__(self, seed: int) -> None:
        gr.basic_block.__init__(self, name="OAC voter", in_sig=None, out_sig=None)
        self.k, self.abstain_share, self.ticking = 1, 0.0, False
        self._rng = np.random.default_rng(seed)
        self._round = 0
        self.message_port_register_in(_NEXT)
        self.message_port_register_in(_TICK)
        self.message_port_register_out(_VOTES)
        self.set_msg_handler(_NEXT, self._vote)
        self.set_msg_handler(_TICK, self._on_tick)

    def _on_tick(self, message: Any) -> None:
        if self.ticking:
            self._vote(message)

    def _vote(self, _message: Any) -> None:
        k = self.k
        votes = 2 * self._rng.integers(0, 2, k, np.int8) - 1
        votes[self._rng.random(k, np.float32) < self.abstain_share] = 0
        self.message_port_pub(_VOTES, pdus.make(votes, {"round": self._round}))
        self._round += 1


class vote_source(gr.hier_block2):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Vote source: PDUs of k random votes with a running ``round``.

    Message port ``votes``: the PDUs, int8 as u8vector. One every ``period_ms`` (0: none), and one for each message on
    port ``next``, whatever it holds.
    """

    def __init__(self, k: int = 960, period_ms: int = 50, abstain_share: float = 0.0, seed: int = 0) -> None:
        gr.hier_block2.__init__(self, "OAC Vote Source", gr.io_signature(0, 0, 0), gr.io_signature(0, 0, 0))
        self.message_port_register_hier_in("next")
        self.message_port_register_hier_out("votes")
        self._voter = _Voter(integer("seed", seed, 0))
        self._clock = blocks.message_strobe(pmt.PMT_T, _IDLE_PERIOD_MS)
        self.set_k(k)
        self.set_period_ms(period_ms)
        self.set_abstain_share(abstain_share)
        self.msg_connect((self, "next"), (self._voter, "next"))
        self.msg_connect((self._clock, "strobe"), (self._voter, "tick"))
        self.msg_connect((self._voter, "votes"), (self, "votes"))

    def set_k(self, k: int) -> None:
        """Votes in a PDU."""
        self._voter.k = integer("k", k, 1)

    def set_period_ms(self, period_ms: int) -> None:
        """Milliseconds from one PDU to the next; 0 for none but on request."""
        period = integer("period_ms", period_ms, 0)
        self._voter.ticking = period > 0
        self._clock.set_period(period or _IDLE_PERIOD_MS)

    def set_abstain_share(self, abstain_share: float) -> None:
        """Share of votes that are 0."""
        self._voter.abstain_share = real("abstain_share", abstain_share, 0.0, 1.0)
