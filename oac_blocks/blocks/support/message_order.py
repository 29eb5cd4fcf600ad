# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle messages in the order of cause and effect.

GNU Radio keeps a queue for each message port and reads the queues between calls of ``work()``, one port after the
other. A message may therefore be handled after samples that were made because of it, or after a later message on
another port. A block that must not handle the effect before the cause empties the queue of the cause first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pmt


def take_waiting(block: Any, port: str, handler: Callable[[Any], None]) -> None:
    """Handle all messages that wait at this port now."""
    queues, name = block.to_basic_block(), pmt.intern(port)
    for _ in range(queues.nmsgs(name)):
        handler(queues.delete_head_nowait(name))
