# SPDX-License-Identifier: GPL-3.0-or-later
"""Output one number of each message as a stream."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.dsp.checks import real, require

_MAX_WAITING = 4096
_LARGEST = float(np.finfo(np.float32).max)


class number_probe(gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Number probe: outputs a float for each message, the number under ``key`` in its dictionary.

    Message port ``messages`` takes dictionaries, or PDUs whose metadata is the dictionary. Messages without a finite
    number under this key are dropped and counted, and the first one is logged. If no block reads the output, the newest
    4,096 numbers are kept.
    """

    def __init__(self, key: str = "snr_db") -> None:
        gr.sync_block.__init__(self, name="OAC Number Probe", in_sig=None, out_sig=[np.float32])
        self._waiting: deque[float] = deque(maxlen=_MAX_WAITING)
        self._last: float | None = None
        self._drops = Drops(self.logger)
        self.set_key(key)
        self.message_port_register_in(pmt.intern("messages"))
        self.set_msg_handler(pmt.intern("messages"), self._on_message)

    @property
    def last(self) -> float | None:
        """Return the last number under this key; None before the first."""
        return self._last

    @property
    def dropped(self) -> int:
        """Return the number of messages that could not be used."""
        return self._drops.count

    def set_key(self, key: str) -> None:
        """Set the key of the number to output."""
        require(isinstance(key, str) and key != "", "key", repr(key), "a non-empty string")
        self._key = key
        self._last = None

    def _on_message(self, message: Any) -> None:
        key = self._key
        try:
            entries = pdus.read_notice(message)
            if isinstance(entries, str):
                raise ValueError(entries)
            require(key in entries, "a message", f"one with {', '.join(entries) or 'nothing'}", f"one with {key}")
            number = real(key, entries[key], -_LARGEST, _LARGEST)
        except Exception as error:  # an exception that leaves a handler is lost, and the exit code stays 0
            self._drops.add(str(error))
            return
        self._last = number
        self._waiting.append(number)

    def work(self, _input_items: Any, output_items: Any) -> int:
        out = output_items[0]
        n = min(len(out), len(self._waiting))
        out[:n] = [self._waiting.popleft() for _ in range(n)]
        return n
