# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of the shared air: how it begins, how it advances, and when it stands still.

Time is true time in seconds. It advances in one of two ways.

In *lock-step* a receiver gets samples as soon as every radio that streams has said what it sends up to then, and only
as fast as they are read. Nothing is ever late, and what each radio hears depends only on what the radios send. Time
begins when ``expected`` radios have both of their buffers open, and anew after all buffers were closed. It goes on
without a radio that closes both buffers. It stands still while such a radio has opened only one of them again, so that
the two streams of a radio that comes back begin together, as they did at first. While no radio listens, time follows
the transmitter that has sent most.

On the *wall clock* time passes by itself. A radio whose samples come late sends silence, and a radio that does not read
loses samples; the device's flags tell. If the simulation itself cannot follow, or its process was stopped for a while,
time runs slower and no radio is blamed: ``slowed_seconds`` of the wall clock are missing from the air's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from oac_blocks.dsp.channel.resampling import HOP
from oac_blocks.dsp.checks import integer
from oac_blocks.radio.virtual.air.node import Node

POLL_SECONDS = 0.1  # longest pause of a thread that waits for something that happens on the air
_USUAL_LAG_BLOCKS = 3
_MOST_LAG_SECONDS = 5e-3
_MOST_STEP_SECONDS = 50e-3  # longest advance between two steps of the computing thread while a radio streams
_MOST_IDLE_SECONDS = 1.0  # longest advance between two steps while no radio streams
_LEAST_PAUSE_SECONDS = 2e-3


class AirTime:
    """The time that all radios of an air share. All methods are called with the air's lock held.

    ``tx_start`` returns by how many samples a radio's transmit stream begins after its receive stream.
    """

    def __init__(
        self, nodes: Sequence[Node], lock_step: bool, expected: int | None, tx_start: Callable[[int], int]
    ) -> None:
        self._nodes, self._tx_start = nodes, tx_start
        self.lock_step = lock_step
        self._expected = integer("expected", len(nodes) if expected is None else expected, 0, len(nodes))
        self.now = 0.0
        self.slowed_seconds = 0.0
        self.started = not lock_step or self._expected == 0
        self._wall_start = time.monotonic()
        self._stepped = 0.0  # time of the last step of the computing thread

    @property
    def elapsed_seconds(self) -> float:
        """Return the seconds of the wall clock since the air was made."""
        return time.monotonic() - self._wall_start

    def advance(self) -> float:
        """Let time pass as far as it may, and return it."""
        if self.lock_step:
            heard = [node.next_seconds for node in self.listening()]
            if self.started and heard:
                self.now = max(self.now, min(heard))
            elif self.started:
                self.now = max([self.now, *(node.tx_true(node.tx.end) for node in self._nodes if node.tx.streaming)])
        else:
            wall = self.elapsed_seconds - self.slowed_seconds
            # Some blocks are always under way. A longer lag is the simulation's own delay.
            due = [
                node.next_seconds + _USUAL_LAG_BLOCKS * HOP / node.rx_timeline.rate_hz + _MOST_LAG_SECONDS
                for node in self.listening()
            ]
            busy = bool(due) or any(node.tx.streaming for node in self._nodes)
            latest = min([*due, self._stepped + (_MOST_STEP_SECONDS if busy else _MOST_IDLE_SECONDS)])
            latest = max(latest, self.now)
            self.slowed_seconds += max(0.0, wall - latest)
            self.now = max(self.now, min(wall, latest))
        return self.now

    def note_step(self) -> None:
        """Count the present time as that of a step: the next advance is bounded from here."""
        self._stepped = self.now

    def listening(self) -> list[Node]:
        """Return the radios with an open receive buffer."""
        return [node for node in self._nodes if node.queues]

    def horizon(self) -> float:
        """Return the latest time up to which a radio has heard anything."""
        return max([self.now, *(node.next_seconds for node in self.listening())])

    def begin_if_complete(self) -> None:
        """Begin lock-step time once enough radios have both buffers open."""
        for node in self._nodes:
            if node.tx.buffer is not None and node.queues:
                node.joined, node.closing = True, False
        if not self.started:
            both = sum(node.tx.buffer is not None and bool(node.queues) for node in self._nodes)
            self.started = both >= self._expected

    def stop_if_empty(self) -> None:
        """Stop lock-step time once all buffers are closed, so that the next radios begin together again."""
        if not self.lock_step or any(node.queues or node.tx.buffer for node in self._nodes):
            return
        self.started = self._expected == 0
        self.now = max(self.now, *(node.next_seconds for node in self._nodes))
        for node in self._nodes:
            place = max(node.tx_place(self.now), node.tx.end)
            node.tx.start_at = place + self._tx_start(node.index)

    def stands_still(self) -> bool:
        """Return whether lock-step time waits for a radio that has opened one of its two buffers again."""
        if not self.lock_step or not self._expected:
            return False
        return any(
            node.joined and not node.closing and bool(node.queues) != (node.tx.buffer is not None)
            for node in self._nodes
        )

    def pause_seconds(self) -> float:
        """Return how long there will be nothing to compute, unless a client does something."""
        if self.lock_step or not any(node.queues or node.tx.streaming for node in self._nodes):
            return POLL_SECONDS
        due = [node.next_seconds + 2 * HOP / node.rx_timeline.rate_hz - self.now for node in self.listening()]
        return min(max(min(due, default=_LEAST_PAUSE_SECONDS), _LEAST_PAUSE_SECONDS), 4 * _LEAST_PAUSE_SECONDS)
