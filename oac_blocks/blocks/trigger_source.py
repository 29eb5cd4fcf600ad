# SPDX-License-Identifier: GPL-3.0-or-later
"""Generate the server's transmit stream: silence, with a trigger at the beginning of each round."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.preamble import trigger

MODES = ("periodic", "message", "lock_step")
MAX_WAITING_ROUNDS = 1024
_DONE = -1


class trigger_source(gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Trigger source: outputs rounds of ``round_samples`` samples, each a trigger followed by silence.

    ``mode`` sets when a round begins:

    - ``periodic``: as soon as the last round is over;
    - ``message``: when a message arrives on port ``fire``, with silence until then;
    - ``lock_step``: when a message arrives on port ``fire``, with no samples at all until then. A flowgraph that sends
      the next message after it has processed a round is deterministic.

    The output is complex64; the first sample of a trigger carries the tag ``trigger`` with the number of the round. A
    message that is an integer, or a dictionary or PDU with an integer ``round``, sets that number; otherwise the number
    increases by one. After ``rounds`` rounds the stream ends; 0 is endless.
    """

    def __init__(
        self,
        mode: str = "periodic",
        round_samples: int = 262_144,
        amplitude: float = 0.5,
        rounds: int = 0,
        chunk_samples: int = 65_536,
    ) -> None:
        require(mode in MODES, "mode", repr(mode), f"one of {', '.join(MODES)}")
        self._mode = mode
        self._rounds = integer("rounds", rounds, 0)
        self._chunk = integer("chunk_samples", chunk_samples, 512, 1 << 22)
        self.set_round_samples(round_samples)
        self.set_amplitude(amplitude)
        self._waiting: deque[int | None] = deque()  # numbers of requested rounds; None is the next number
        self._begun = 0
        self._ended = False
        self._next_round = 0
        self._rest = np.empty(0, np.complex64)  # remaining samples of the trigger
        self._left = 0  # remaining samples of the round
        gr.sync_block.__init__(self, name="OAC Trigger Source", in_sig=None, out_sig=[np.complex64])
        self._drops = Drops(self.logger)
        self.set_output_multiple(self._chunk)
        # Smaller buffers deadlock a flowgraph in which the trigger reaches a channel directly and through clients.
        self.set_min_output_buffer(4 * self._chunk)
        self.message_port_register_in(pmt.intern("fire"))
        self.set_msg_handler(pmt.intern("fire"), self._on_fire)

    @property
    def round_samples(self) -> int:
        """Return the length of a round in samples."""
        return self._round_samples

    @property
    def amplitude(self) -> float:
        """Return the root-mean-square value of the trigger."""
        return self._amplitude

    @property
    def begun(self) -> int:
        """Return the number of rounds that have begun so far."""
        return self._begun

    @property
    def dropped(self) -> int:
        """Return the number of messages that arrived while too many others waited."""
        return self._drops.count

    @property
    def ended(self) -> bool:
        """Return whether the stream has ended since the flowgraph was started."""
        return self._ended

    def set_round_samples(self, round_samples: int) -> None:
        """Set the length of a round, from the next one on; in lock step it must be a multiple of the chunk."""
        samples = integer("round_samples", round_samples, len(trigger()))
        # Blocks downstream take whole chunks, so remaining samples would wait for the next round.
        whole = self._mode != "lock_step" or samples % self._chunk == 0
        require(whole, "round_samples", samples, f"a multiple of chunk_samples, {self._chunk}, in lock step")
        self._round_samples = samples

    def set_amplitude(self, amplitude: float) -> None:
        """Set the root-mean-square value of the trigger, from the next one on; full scale is 1."""
        self._amplitude = real("amplitude", amplitude, 0.0, 1.0)

    def start(self) -> bool:
        self._waiting.clear()
        self._begun = self._next_round = self._left = 0
        self._ended = False
        return True

    def stop(self) -> bool:
        self._ended = True
        return True

    def _on_fire(self, message: Any) -> None:
        if self._mode == "periodic" or len(self._waiting) == MAX_WAITING_ROUNDS:
            self._drops.add("periodic mode ignores fire" if self._mode == "periodic" else "too many wait already")
        else:
            self._waiting.append(_round_number(message))

    def work(self, _input_items: Any, output_items: Any) -> int:
        out, produced = output_items[0], 0
        while produced < len(out):
            if not self._left and not self._begin(self.nitems_written(0) + produced):
                if self._rounds and self._begun == self._rounds:
                    return produced or _DONE
                if self._mode == "message":
                    out[produced:] = 0
                    produced = len(out)
                break
            n = min(self._left, len(out) - produced)
            some = self._rest[:n]
            out[produced : produced + len(some)] = some
            out[produced + len(some) : produced + n] = 0
            self._rest = self._rest[len(some) :]
            self._left -= n
            produced += n
        return produced

    def _begin(self, offset: int) -> bool:
        """Begin the next round at this sample of the stream if it is due."""
        if self._rounds and self._begun == self._rounds:
            return False
        if self._mode != "periodic":
            if not self._waiting:
                return False
            number = self._waiting.popleft()
            self._next_round = self._next_round if number is None else number
        self.add_item_tag(0, offset, pmt.intern("trigger"), pmt.from_long(self._next_round))
        self._rest = np.float32(self._amplitude) * trigger()
        self._left = self._round_samples
        self._begun += 1
        self._next_round += 1
        return True


def _round_number(message: Any) -> int | None:
    if pmt.is_pair(message) and pmt.is_dict(pmt.car(message)):
        message = pmt.car(message)
    if pmt.is_dict(message):
        entries = pdus.from_dict(message)
        message = pmt.PMT_NIL if isinstance(entries, str) else entries.get("round", pmt.PMT_NIL)
    return pmt.to_long(message) if pmt.is_integer(message) else None
