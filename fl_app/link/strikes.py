# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the bad messages of each sender."""

from __future__ import annotations

from collections import OrderedDict

KNOWN_PEERS = 1024  # number of senders whose strikes are remembered; the oldest are forgotten


class Strikes:
    """Hold the number of strikes of each sender."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def of(self, peer: str) -> int:
        """Return the number of strikes of a sender."""
        return self._counts.get(peer, 0)

    def add(self, peer: str) -> int:
        """Give a sender one more strike, and return how many it has."""
        self._counts[peer] = strikes = self._counts.pop(peer, 0) + 1
        if len(self._counts) > KNOWN_PEERS:
            self._counts.popitem(last=False)
        return strikes
