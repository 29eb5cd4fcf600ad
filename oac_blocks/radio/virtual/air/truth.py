# SPDX-License-Identifier: GPL-3.0-or-later
"""The truth of the shared air, which clients can only estimate: when a sample arrives, and along which paths."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.echoes import Echoes, Paths
from oac_blocks.radio.virtual.air.node import Node
from oac_blocks.radio.virtual.air.receiver import ReceiveQueue
from oac_blocks.radio.virtual.air.transmitter import Buffer


class Truth:
    """What really happens between the radios. All methods are called with the air's lock held."""

    def __init__(self, settings: VirtualAirSettings, nodes: Sequence[Node], echoes: Echoes) -> None:
        self._settings, self._nodes, self._echoes = settings, nodes, echoes

    def arrival(
        self, sender: int, buffer: Buffer | None, sample: float, receiver: int, queue: ReceiveQueue | None
    ) -> float:
        """Return where in the receiver's buffer a sample of the sender's buffer arrives, without echoes.

        It is NaN if one of the buffers is no longer open (closed, or its radio was unplugged), or if the sample was not
        handed over yet.
        """
        node = self._nodes[receiver]
        at = self._sent_seconds(sender, buffer, sample) + self._settings.delay(sender, receiver)
        if queue is None or queue not in node.queues or math.isnan(at):
            return math.nan
        return queue.sample(node.rx_timeline.sample_at(at + node.crystal.lead_at(at)))

    def paths(self, sender: int, buffer: Buffer | None, sample: float, receiver: int) -> Paths:
        """Return the echoes that follow that arrival; the first has no further delay. Gains are NaN if it is NaN."""
        at = self._sent_seconds(sender, buffer, sample) + self._settings.delay(sender, receiver)
        return self._echoes.paths(sender, receiver, at)

    def _sent_seconds(self, sender: int, buffer: Buffer | None, sample: float) -> float:
        """Return when a sample of the sender's buffer leaves it, or NaN if that is not known."""
        node, whole = self._nodes[sender], math.floor(sample)
        if buffer is None or buffer is not node.tx.buffer or not 0 <= whole < buffer.taken:
            return math.nan
        place = buffer.place(whole)
        return node.tx_true(place + sample - whole) if place >= node.tx.timeline.first else math.nan
