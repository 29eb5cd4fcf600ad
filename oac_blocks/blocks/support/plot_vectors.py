# SPDX-License-Identifier: GPL-3.0-or-later
"""Make vectors for GNU Radio's vector sink from PDUs: one vector for each PDU."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops

# The vector sink of GNU Radio 3.10 shows the second vector of its input, even if there is only one.
COPIES = 2
_MAX_WAITING = 4096  # vectors that are kept if the sink does not read them


class VectorOfPdu(gr.sync_block):
    """Output one vector of ``length`` floats, written twice, for each PDU of float32 on the port ``pdus``."""

    def __init__(self, name: str, length: int) -> None:
        gr.sync_block.__init__(self, name=name, in_sig=None, out_sig=[(np.float32, length)])
        self.set_output_multiple(COPIES)
        self._waiting: deque[npt.NDArray[np.float32]] = deque(maxlen=_MAX_WAITING)
        self._last: npt.NDArray[np.float32] | None = None
        self._drops = Drops(self.logger)
        self.message_port_register_in(pmt.intern("pdus"))
        self.set_msg_handler(pmt.intern("pdus"), self._on_message)

    def vector_of(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the vector to plot after a PDU with these values. A ValueError drops the PDU."""
        raise NotImplementedError

    @property
    def last(self) -> npt.NDArray[np.float32] | None:
        """Return the newest vector; None before the first PDU."""
        return self._last

    @property
    def dropped(self) -> int:
        """Return the number of PDUs that could not be used."""
        return self._drops.count

    def _on_message(self, message: Any) -> None:
        try:
            pdu = pdus.read(message, np.float32)
            if isinstance(pdu, str):
                raise ValueError(pdu)
            vector = self.vector_of(pdu.data)
        except Exception as error:  # an exception that leaves a handler is lost, and the exit code stays 0
            self._drops.add(str(error))
            return
        self._last = vector
        self._waiting.append(vector)

    def work(self, _input_items: Any, output_items: Any) -> int:
        out = output_items[0]
        n = min(len(out) // COPIES, len(self._waiting))
        for i in range(n):
            out[COPIES * i : COPIES * (i + 1)] = self._waiting.popleft()
        return COPIES * n
