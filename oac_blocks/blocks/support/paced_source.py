# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of the sources of random PDUs: one PDU per period, and one on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import pmt
from gnuradio import blocks, gr

from oac_blocks.blocks.support import pdus
from oac_blocks.dsp.checks import integer

_NEXT, _TICK = pmt.intern("next"), pmt.intern("tick")
_IDLE_PERIOD_MS = 1000


class _Sender(gr.basic_block):
    """Send a PDU for each message; ticks of the clock count only while it is switched on."""

    def __init__(self, port: str, draw: Callable[[], npt.NDArray[Any]]) -> None:
        gr.basic_block.__init__(self, name=f"OAC sender of {port}", in_sig=None, out_sig=None)
        self.ticking = False
        self._draw = draw
        self._round = 0
        self._port = pmt.intern(port)
        self.message_port_register_in(_NEXT)
        self.message_port_register_in(_TICK)
        self.message_port_register_out(self._port)
        self.set_msg_handler(_NEXT, self._send)
        self.set_msg_handler(_TICK, self._on_tick)

    def _on_tick(self, message: Any) -> None:
        if self.ticking:
            self._send(message)

    def _send(self, message: Any) -> None:
        wanted = pdus.read_notice(message)
        if isinstance(wanted, dict) and isinstance(wanted.get("round"), int):
            self._round = wanted["round"]
        self.message_port_pub(self._port, pdus.make(self._draw(), {"round": self._round}))
        self._round += 1


class PacedSource(gr.hier_block2):
    """Send PDUs with the data from ``draw`` and consecutive ``round`` numbers, periodically and on request.

    A PDU is sent every ``period_ms`` and for each message on ``next``. A message with a ``round`` sets the round
    number.
    """

    def __init__(self, name: str, port: str, draw: Callable[[], npt.NDArray[Any]], period_ms: int) -> None:
        gr.hier_block2.__init__(self, name, gr.io_signature(0, 0, 0), gr.io_signature(0, 0, 0))
        self.message_port_register_hier_in("next")
        self.message_port_register_hier_out(port)
        self._sender = _Sender(port, draw)
        self._clock = blocks.message_strobe(pmt.PMT_T, _IDLE_PERIOD_MS)
        self.set_period_ms(period_ms)
        self.msg_connect((self, "next"), (self._sender, "next"))
        self.msg_connect((self._clock, "strobe"), (self._sender, "tick"))
        self.msg_connect((self._sender, port), (self, port))

    def set_period_ms(self, period_ms: int) -> None:
        """Set the milliseconds from one PDU to the next; with 0, PDUs are sent only on request."""
        period = integer("period_ms", period_ms, 0)
        self._sender.ticking = period > 0
        self._clock.set_period(period or _IDLE_PERIOD_MS)
