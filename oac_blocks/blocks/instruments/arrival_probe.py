# SPDX-License-Identifier: GPL-3.0-or-later
"""Show each client's arrival offset (or another quantity) round by round."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, get_args

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.dsp.checks import integer, require

Quantity = Literal[
    "offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db", "correction_samples", "drift_ppm", "gain_db"
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
_MAX_WAITING_ROUNDS = 4096


class arrival_probe(gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Arrival probe: outputs one float stream for each client, one item per round, from the server's ``arrivals``.

    ``quantity`` is ``offset_samples`` (positive is late), ``sigma_samples``, ``power_db``, ``cfo_rad`` or ``snr_db``.
    The port ``arrivals`` also takes the drift calibrator's ``report``, which has offset, sigma and power, and in
    addition ``correction_samples``, ``drift_ppm`` and ``gain_db``. A client that was not heard repeats its last value,
    initially 0, so that a plot continues.
    """

    def __init__(self, clients: int = 2, quantity: str = "offset_samples") -> None:
        self._clients = integer("clients", clients, 1, 64)
        gr.sync_block.__init__(self, name="OAC Arrival Probe", in_sig=None, out_sig=[np.float32] * self._clients)
        self._waiting: deque[Any] = deque(maxlen=_MAX_WAITING_ROUNDS)
        self._drops = Drops(self.logger)
        self.set_quantity(quantity)
        self.message_port_register_in(pmt.intern("arrivals"))
        self.set_msg_handler(pmt.intern("arrivals"), self._on_arrivals)

    @property
    def last(self) -> tuple[float, ...]:
        """Return the last value of each client."""
        return tuple(self._last.tolist())

    @property
    def dropped(self) -> int:
        """Return the number of messages that could not be used."""
        return self._drops.count

    def set_quantity(self, quantity: str) -> None:
        """Set the quantity to output."""
        require(quantity in QUANTITIES, "quantity", repr(quantity), f"one of {', '.join(QUANTITIES)}")
        self._quantity = quantity
        self._last = np.zeros(self._clients, np.float32)  # in a plot of decibels, old values in samples would mislead

    def _on_arrivals(self, message: Any) -> None:
        try:
            arrivals = pdus.read_notice(message)
            if isinstance(arrivals, str):
                raise ValueError(arrivals)
            values = np.asarray(arrivals[self._quantity], np.float32)
            require(values.shape == (self._clients,), self._quantity, f"shape {values.shape}", f"({self._clients},)")
        except Exception as error:  # an exception that leaves a handler is lost, and the exit code stays 0
            self._drops.add(f"arrivals: {error}")
            return
        self._last = np.where(np.isnan(values), self._last, values)
        self._waiting.append(self._last)

    def work(self, _input_items: Any, output_items: Any) -> int:
        n = min(len(output_items[0]), len(self._waiting))
        for i in range(n):
            for out, value in zip(output_items, self._waiting.popleft(), strict=True):
                out[i] = value
        return n
