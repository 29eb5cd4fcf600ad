# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the next blocks of a receiver as far as the air has come, and hand them to its buffers."""

from __future__ import annotations

import numpy as np

from oac_blocks.dsp.channel.resampling import HOP
from oac_blocks.radio.virtual.air.air_time import AirTime
from oac_blocks.radio.virtual.air.mixer import Mixer, Way
from oac_blocks.radio.virtual.air.node import Node
from oac_blocks.radio.virtual.air.transmitter import PIECE

_BLOCKS_AT_ONCE = 8
_FEW_BLOCKS_AT_ONCE = 2  # for a receiver with many transmitters at other rates, each of which keeps that much
_MANY_CONVERSIONS = 8


class BlockReceiver:
    """Receives for all radios of an air. ``receive`` is called with the air's lock held."""

    def __init__(self, mixer: Mixer, time: AirTime) -> None:
        self._mixer, self._time = mixer, time

    def receive(self, node: Node) -> bool:
        """Compute what one receiver hears next and hand it over; return whether there was anything to do."""
        if not len(node.pending):
            ways = self._mixer.ways(node, _BLOCKS_AT_ONCE)
            blocks = self._blocks_ready(node, ways)
            if sum(not way.conversion.trivial for way in ways) > _MANY_CONVERSIONS:
                blocks = min(blocks, _FEW_BLOCKS_AT_ONCE)
            if not blocks:
                self._feed(node, ways)
                return False
            for way in ways:
                self._mixer.bring(node, way, way.needed(blocks))
            node.pending = self._mixer.receive(node, ways, blocks)
            node.next += blocks * HOP
        return self._hand_over(node)

    def _feed(self, node: Node, ways: list[Way]) -> None:
        """On the wall clock, let a slow receiver take what was sent while its block is not over."""
        for way in () if self._time.lock_step else ways:
            end = min(way.needed(1), way.sender.tx_place(self._time.now))
            if end - way.sender.tx.written > PIECE and not way.conversion.trivial:
                self._mixer.bring(node, way, end)

    def _hand_over(self, node: Node) -> bool:
        """Push samples into the buffers: all on the wall clock, and as many as there is room for in lock-step."""
        count = len(node.pending)
        if self._time.lock_step:
            count = min(count, *(max(0, queue.room_samples) for queue in node.queues))
        words, place = node.pending[:count], node.next - len(node.pending)
        for queue in node.queues:
            queue.push(words, place)
        if any(queue.ready for queue in node.queues):
            node.rx_ready.notify_all()
        node.pending = node.pending[count:]
        return count > 0

    def _blocks_ready(self, node: Node, ways: list[Way]) -> int:
        if self._time.lock_step:
            return min([_BLOCKS_AT_ONCE, *(way.covered() for way in ways if way.sender.tx.streaming)])
        # All transmissions are settled up to now, less what the filters look ahead.
        ahead = max(((way.lookahead + 2) / way.sender.tx.timeline.rate_hz for way in ways), default=0.0)
        borders = node.rx_timeline.own(node.next + HOP * np.arange(1, _BLOCKS_AT_ONCE + 1))
        return int(np.count_nonzero(node.crystal.true_seconds(borders) <= self._time.now - ahead))
