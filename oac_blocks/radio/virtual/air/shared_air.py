# SPDX-License-Identifier: GPL-3.0-or-later
"""The air that all radios share, and its time.

Time is true time in seconds. It advances in one of two ways:

- *lock-step*: a receiver gets samples as soon as every radio that streams has said what it sends up to then, only as
  fast as they are read. Nothing is ever late, and what everybody hears depends on what everybody sends alone. Time
  begins when ``expected`` radios have both of their buffers open, and anew after all buffers were closed. It goes on
  without one that closes both, and stands still while such a one has opened only one of them again: so the two streams
  of a radio that comes back begin together, as they did at first. While nobody listens, it follows the transmitter
  that has sent most.
- *wall clock*: time passes. Who is late with samples sends silence, who does not read loses some; the device's flags
  tell. If the simulation itself cannot follow, or its process was stopped for a while, time runs slower, and nobody is
  blamed: ``slowed_seconds`` of the wall clock are missing from the air's time.

Memory is bounded whatever clients do: all kernel buffers together by ``MOST_SAMPLES_OF_ALL``, a transmission by what
receivers have still to hear of it.

All methods may be called by any thread; ``run`` is the one that computes.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import errno
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from oac_blocks.dsp.channel.resampling import HOP
from oac_blocks.dsp.checks import integer
from oac_blocks.radio.virtual.air.air_settings import AirSettings
from oac_blocks.radio.virtual.air.echoes import Paths
from oac_blocks.radio.virtual.air.gain_control import GainControl
from oac_blocks.radio.virtual.air.mixer import Mixer, Way
from oac_blocks.radio.virtual.air.node import Node
from oac_blocks.radio.virtual.air.receiver import ReceiveQueue, Words
from oac_blocks.radio.virtual.air.transmitter import PIECE, Block, Buffer
from oac_blocks.radio.virtual.faults import Fault
from oac_blocks.radio.virtual.iiod.attributes import refuse
from oac_blocks.radio.virtual.iiod.pluto_context import PlutoContext

MOST_BUFFER_SAMPLES = 1 << 24  # of all kernel buffers of one stream
MOST_SAMPLES_OF_ALL = 1 << 26  # of all kernel buffers of all streams, 4 bytes each
MOST_KERNEL_BUFFERS = 64
_BLOCKS_AT_ONCE = 8
_FEW_BLOCKS_AT_ONCE = 2  # for a receiver with many transmitters at other rates, each of which keeps that much
_MANY_CONVERSIONS = 8
_USUAL_LAG_BLOCKS = 3
_MOST_LAG_SECONDS = 5e-3
_MOST_STEP_SECONDS = 50e-3  # by which time advances between two steps of the thread that computes, while some stream
_MOST_IDLE_SECONDS = 1.0  # likewise, while nobody does
_POLL_SECONDS = 0.1
_BREATH_SECONDS = 1e-4
_MOST_BREATHS = 50
_LEAST_PAUSE_SECONDS = 2e-3


class Air:
    def __init__(
        self,
        settings: AirSettings,
        uris: Sequence[str] | None = None,
        *,
        lock_step: bool = False,
        expected: int | None = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        self.settings = settings
        self.lock_step = lock_step
        self._expected = integer("expected", settings.radios if expected is None else expected, 0, settings.radios)
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # somebody came or went
        self._work = threading.Condition(lock)  # there may be something to compute
        self._count, self._waiting = threading.Lock(), 0  # who wants the lock
        self._stopped = False
        names = uris or [f"radio {i}" for i in range(settings.radios)]
        self.nodes = [Node(i, settings, names[i], lock) for i in range(settings.radios)]
        self._mixer = Mixer(settings, self.nodes)
        self._due: list[Fault] = []
        self.unplugged: Callable[[int], None] = lambda _: None  # who holds the sockets is told
        self.plugged: Callable[[int], None] = lambda _: None
        self._wall_start = time.monotonic()
        self.slowed_seconds = 0.0
        self._now = self._stepped = 0.0  # the latter: at the last step
        self._started = not lock_step or self._expected == 0
        with self._changed:
            for node in self.nodes:
                self._power_on(node)
                node.tx.start_at = settings.tx_start(node.index) if lock_step else 0
        for fault in faults:
            self.fault(fault)

    # Time.

    @property
    def now(self) -> float:
        with self.turn():
            return self._advance_time()

    def _advance_time(self) -> float:
        if self.lock_step:
            heard = [node.next_seconds for node in self._listening()]
            if self._started and heard:
                self._now = max(self._now, min(heard))
            elif self._started:
                self._now = max([self._now, *(node.tx_true(node.tx.end) for node in self.nodes if node.tx.streaming)])
        else:
            wall = self.elapsed_seconds - self.slowed_seconds
            # Some blocks are always under way. What is more is the simulation's own delay.
            due = [
                node.next_seconds + _USUAL_LAG_BLOCKS * HOP / node.rx_timeline.rate_hz + _MOST_LAG_SECONDS
                for node in self._listening()
            ]
            busy = bool(due) or any(node.tx.streaming for node in self.nodes)
            latest = min([*due, self._stepped + (_MOST_STEP_SECONDS if busy else _MOST_IDLE_SECONDS)])
            latest = max(latest, self._now)
            self.slowed_seconds += max(0.0, wall - latest)
            self._now = max(self._now, min(wall, latest))
        return self._now

    @property
    def elapsed_seconds(self) -> float:
        """Of the wall clock, since the air is there."""
        return time.monotonic() - self._wall_start

    def _listening(self) -> list[Node]:
        return [node for node in self.nodes if node.queues]

    def _horizon(self) -> float:
        """Nobody has heard anything later."""
        return max([self._now, *(node.next_seconds for node in self._listening())])

    # What sessions ask for.

    def context(self, radio: int) -> PlutoContext:
        return self.nodes[radio].pluto

    @property
    def lock(self) -> threading.Condition:
        """Held while attributes are read or written."""
        return self._changed

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """The lock, in a queue: whoever computes lets those in who wait, and would keep them out otherwise."""
        with self._count:
            self._waiting += 1
        with self._changed:
            with self._count:
                self._waiting -= 1
            yield

    def set_kernel_buffers(self, radio: int, which: str, count: int) -> None:
        with self.turn():
            if not 1 <= count <= MOST_KERNEL_BUFFERS:
                refuse()
            self.nodes[radio].kernel_buffers[which] = count

    def open_rx(self, radio: int, samples: int, mask: int) -> ReceiveQueue:
        with self.turn():
            node = self._plugged(radio)
            count = node.kernel_buffers["rx"]
            self._check_size(samples, count, count)
            queue = ReceiveQueue(samples, count, mask, node.overflow)
            if not node.queues:
                self._advance_time()
                self._follow(node)
                node.next = node.rx_place(self._horizon() if self.lock_step else self._now)
                node.pending = node.pending[:0]
                self._stepped = self._now
            node.queues.append(queue)
            self._forget()
            self._maybe_start()
            self._tell_all()
            return queue

    def close_rx(self, radio: int, queue: ReceiveQueue) -> None:
        with self.turn():
            node = self.nodes[radio]
            if queue in node.queues:
                self._advance_time()
                node.queues.remove(queue)
                node.gain_seconds = self._now
                if not node.queues:
                    self._mixer.begin_anew(radio)
                node.closing = node.tx.buffer is not None
                self._maybe_stop()
            self._tell_all()

    def pop_rx(self, radio: int, queue: ReceiveQueue, gone: Callable[[], bool]) -> Words:
        """The next block, as soon as there is one."""
        with self.turn():
            node = self.nodes[radio]
            queue.release()
            while True:
                if self.lock_step:
                    self._work.notify_all()
                words = queue.pop()
                if words is not None:
                    return words
                self._wait(node.rx_ready, gone, lambda: queue in node.queues)

    def open_tx(self, radio: int, samples: int, cyclic: bool) -> Buffer:
        with self.turn():
            node = self._plugged(radio)
            count = node.kernel_buffers["tx"]
            if node.tx.buffer is not None:
                refuse(errno.EBUSY)
            # With one more block, or one more loop, that is on its way from the client.
            blocks = 2 if cyclic else count + 1
            self._check_size(samples, count, blocks)
            self._advance_time()
            self._stepped = self._now
            if self.lock_step and self._started:
                now = node.next_seconds if node.queues else self._horizon()
                node.tx.start_at = max(node.tx.end, node.tx_place(now) + self.settings.tx_start(radio))
            elif not self.lock_step:
                node.tx.fill(node.tx_place(self._now))
            buffer = node.tx.open(count, cyclic, blocks * samples)
            self._maybe_start()
            self._tell_all()
            return buffer

    def close_tx(self, radio: int, buffer: Buffer) -> None:
        with self.turn():
            node = self.nodes[radio]
            if node.tx.buffer is buffer:
                node.tx.close()
                node.closing = bool(node.queues)
                self._maybe_stop()
            self._tell_all()

    def push_tx(self, radio: int, buffer: Buffer, block: Block, gone: Callable[[], bool]) -> None:
        """Queue a block, as soon as there is room for it."""
        with self.turn():
            node = self.nodes[radio]
            tx = node.tx
            if tx.buffer is not buffer:
                refuse(errno.EBADF)
            self._note_sent()
            while tx.full:
                self._wait(node.tx_room, gone, lambda: tx.buffer is buffer)
            if not self.lock_step and not buffer.cyclic:
                tx.fill(node.tx_place(self._advance_time()))
            tx.push(block)
            if self.lock_step:
                self._work.notify_all()

    # The truth, which clients can only estimate.

    def streams(self, radio: int) -> tuple[ReceiveQueue | None, Buffer | None]:
        """The first receive buffer and the transmit buffer that are open now; None for one that is not."""
        with self.turn():
            node = self.nodes[radio]
            return node.queues[0] if node.queues else None, node.tx.buffer

    def arrival(
        self, sender: int, buffer: Buffer | None, sample: float, receiver: int, queue: ReceiveQueue | None
    ) -> float:
        """Where in the receiver's buffer a sample of the sender's buffer arrives, without echoes.

        NaN if one of the buffers is not open any more (closed, or its radio was unplugged), or if the sample was not
        handed over yet.
        """
        with self.turn():
            node = self.nodes[receiver]
            at = self._sent_seconds(sender, buffer, sample) + self.settings.delay(sender, receiver)
            if queue is None or queue not in node.queues or math.isnan(at):
                return math.nan
            return queue.sample(node.rx_timeline.sample_at(at + node.crystal.lead_at(at)))

    def paths(self, sender: int, buffer: Buffer | None, sample: float, receiver: int) -> Paths:
        """Which echoes follow that arrival, the first of them with no more delay; their gains are NaN if it is."""
        with self.turn():
            at = self._sent_seconds(sender, buffer, sample) + self.settings.delay(sender, receiver)
            return self._mixer.echoes.paths(sender, receiver, at)

    def _sent_seconds(self, sender: int, buffer: Buffer | None, sample: float) -> float:
        """When a sample of the sender's buffer leaves it; NaN if that is not known (``arrival``)."""
        node, whole = self.nodes[sender], math.floor(sample)
        if buffer is None or buffer is not node.tx.buffer or not 0 <= whole < buffer.taken:
            return math.nan
        place = buffer.place(whole)
        return node.tx_true(place + sample - whole) if place >= node.tx.timeline.first else math.nan

    def fault(self, fault: Fault) -> None:
        with self.turn():
            if fault.at_seconds is None:
                fault = dataclasses.replace(fault, at_seconds=self._advance_time())
            if fault.kind == "fade":
                self._mixer.fades.append(fault)
            elif fault.kind == "interferer":
                self._mixer.interferers.append(fault)
            elif fault.kind == "clock":
                self.nodes[fault.radio].crystal.add_ppm(fault.value, fault.at_seconds or 0.0)
            else:
                self._due.append(fault)
                self._due.sort(key=lambda one: one.at_seconds or 0.0)
            self._tell_all()

    def stop(self) -> None:
        with self.turn():
            self._stopped = True
            self._tell_all()

    # Inside, with the lock held.

    def _check_size(self, samples: int, kernel_buffers: int, blocks: int) -> None:
        """Is there memory for this many blocks of a stream that is to be opened?"""
        if samples < 1:
            refuse()
        held = sum(node.tx.held_samples + sum(one.reserved_samples for one in node.queues) for node in self.nodes)
        if samples * kernel_buffers > MOST_BUFFER_SAMPLES or held + samples * blocks > MOST_SAMPLES_OF_ALL:
            refuse(errno.ENOMEM)

    def _plugged(self, radio: int) -> Node:
        node = self.nodes[radio]
        return node if node.plugged else refuse(errno.ENODEV)

    def _power_on(self, node: Node) -> None:
        node.power_on(lambda: self._settings_changed(node))
        node.tx.tones = node.pluto.settings.tones
        node.pluto.sensors.temperature_millidegrees = lambda: self._temperature(node)
        node.listen = lambda: self._listen(node)
        self._settings_changed(node)

    def _listen(self, node: Node) -> GainControl:
        """Level and gain of a receiver now; in lock-step, where time waits for streams, as they would settle."""
        if node.queues:
            return node.gain
        self._advance_time()
        if not self.lock_step:
            self._follow(node)
            return node.gain
        settled = copy.copy(node.gain)  # what is asked for must not change what is heard
        self._mixer.wait(node, settled, self._now, math.inf)
        return settled

    def _follow(self, node: Node) -> None:
        """Gain control went on while there was no stream."""
        if not self.lock_step:
            self._mixer.wait(node, node.gain, self._now, self._now - node.gain_seconds)
            node.gain_seconds = self._now

    def _temperature(self, node: Node) -> int:
        """Warms up within minutes, a transmitter more than a receiver."""
        end = 9000.0 if node.tx.buffer is not None else 4000.0
        return round(31_000 + 700 * node.index + end * (1 - math.exp(-self._now / 120)))

    def _settings_changed(self, node: Node) -> None:
        settings = node.pluto.settings
        self._advance_time()
        if node.tx.timeline.rate_hz != settings.tx_stream_hz:
            at = max(node.tx_place(self._now), 0) if self._now else 0
            node.tx.change_rate(settings.tx_stream_hz, at)
        if node.rx_timeline.rate_hz != settings.rx_stream_hz:
            place = node.next if node.queues else node.rx_place(self._now)
            node.rx_timeline = node.rx_timeline.changed(settings.rx_stream_hz, place if self._now else 0)
            node.next = node.rx_timeline.first
            node.pending = node.pending[:0]
        node.tx.tones = settings.tones if settings.tones_on else ()
        # Whoever corrects the crystal's frequency by software moves the clock and the carrier.
        xo_ppm = -1e6 * (settings.xo_hz / 40e6 - 1)
        if xo_ppm != node.xo_ppm:
            node.crystal.add_ppm(xo_ppm - node.xo_ppm, self._now)
            node.xo_ppm = xo_ppm
        self._tell_all()

    def _maybe_start(self) -> None:
        for node in self.nodes:
            if node.tx.buffer is not None and node.queues:
                node.joined, node.closing = True, False
        if not self._started:
            both = sum(node.tx.buffer is not None and bool(node.queues) for node in self.nodes)
            self._started = both >= self._expected

    def _somebody_is_opening(self) -> bool:
        """One of two buffers is open: the other one will be."""
        if not self.lock_step or not self._expected:
            return False
        return any(
            node.joined and not node.closing and bool(node.queues) != (node.tx.buffer is not None)
            for node in self.nodes
        )

    def _maybe_stop(self) -> None:
        """All buffers are closed: who comes next begins together again."""
        if not self.lock_step or any(node.queues or node.tx.buffer for node in self.nodes):
            return
        self._started = self._expected == 0
        self._now = max(self._now, *(node.next_seconds for node in self.nodes))
        for node in self.nodes:
            place = max(node.tx_place(self._now), node.tx.end)
            node.tx.start_at = place + self.settings.tx_start(node.index)

    def _tell_all(self) -> None:
        """Somebody came, went, or has other settings: everybody looks again."""
        for node in self.nodes:
            node.rx_ready.notify_all()
            node.tx_room.notify_all()
        self._work.notify_all()
        self._changed.notify_all()

    def _wait(self, for_: threading.Condition, gone: Callable[[], bool], open_: Callable[[], bool]) -> None:
        for_.wait(_POLL_SECONDS)
        if self._stopped or not open_():
            refuse(errno.EBADF)
        if gone():
            refuse(errno.ECONNRESET)

    def _note_sent(self) -> None:
        """Blocks that are on the air are free again."""
        self._advance_time()
        listening = [node.next_seconds for node in self._listening()]
        for node in self.nodes:
            if node.tx.buffer is None:
                continue
            was_full = node.tx.full
            if not self.lock_step:
                node.tx.sent(node.tx_place(self._now))
            elif self._started:
                node.tx.sent(node.tx_place(min(listening, default=self._now)))
            if was_full and not node.tx.full:
                node.tx_room.notify_all()

    # Computing.

    def run(self) -> None:
        """Until ``stop``: compute what can be computed, wait for more."""
        with self._changed:
            while not self._stopped:
                # Even after some progress others get the lock in between.
                self._work.wait(_BREATH_SECONDS if self.step() else self._pause())

    def _let_others_in(self) -> None:
        for _ in range(_MOST_BREATHS):
            if not self._waiting:
                return
            self._work.wait(_BREATH_SECONDS)

    def _pause(self) -> float:
        """How long there will be nothing to do, unless somebody says otherwise."""
        if self.lock_step or not any(node.queues or node.tx.streaming for node in self.nodes):
            return _POLL_SECONDS
        due = [node.next_seconds + 2 * HOP / node.rx_timeline.rate_hz - self._now for node in self._listening()]
        return min(max(min(due, default=_LEAST_PAUSE_SECONDS), _LEAST_PAUSE_SECONDS), 4 * _LEAST_PAUSE_SECONDS)

    def step(self) -> bool:
        """One round over all receivers; whether there was anything to do."""
        with self._changed:
            self._advance_time()
            self._apply_due()
            progress = False
            if self._started and not self._somebody_is_opening():
                for node in self._listening():
                    progress |= bool(node.queues) and self._receive(node)
                    self._let_others_in()
            if not self.lock_step:
                for node in self.nodes:
                    if node.tx.streaming:
                        node.tx.fill(node.tx_place(self._now))
            self._note_sent()
            self._forget()
            self._stepped = self._now
            return progress

    def _receive(self, node: Node) -> bool:
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
        """On the wall clock, a slow receiver takes what was sent while its block is not over."""
        for way in () if self.lock_step else ways:
            end = min(way.needed(1), way.sender.tx_place(self._now))
            if end - way.sender.tx.written > PIECE and not way.conversion.trivial:
                self._mixer.bring(node, way, end)

    def _hand_over(self, node: Node) -> bool:
        """Received samples into the queues: all on the wall clock, and as many as there is room for in lock-step."""
        count = len(node.pending)
        if self.lock_step:
            count = min(count, *(max(0, queue.room_samples) for queue in node.queues))
        words, place = node.pending[:count], node.next - len(node.pending)
        for queue in node.queues:
            queue.push(words, place)
        if any(queue.ready for queue in node.queues):
            node.rx_ready.notify_all()
        node.pending = node.pending[count:]
        return count > 0

    def _blocks_ready(self, node: Node, ways: list[Way]) -> int:
        if self.lock_step:
            return min([_BLOCKS_AT_ONCE, *(way.covered() for way in ways if way.sender.tx.streaming)])
        # Until now, less what the filters look ahead: that much of all transmissions is settled.
        ahead = max(((way.lookahead + 2) / way.sender.tx.timeline.rate_hz for way in ways), default=0.0)
        borders = node.rx_timeline.own(node.next + HOP * np.arange(1, _BLOCKS_AT_ONCE + 1))
        return int(np.count_nonzero(node.crystal.true_seconds(borders) <= self._now - ahead))

    def _forget(self) -> None:
        """Transmissions are kept as long as somebody may still ask for them."""
        for node in self.nodes:
            self._mixer.forget(node, self._now)
        self._mixer.forget_faults(min([self._now, *(node.next_seconds for node in self._listening())]))

    def _apply_due(self) -> None:
        while self._due and self._is_due(self._due[0]):
            self._apply(self._due.pop(0))

    def _is_due(self, fault: Fault) -> bool:
        # In lock-step time stands still when nobody listens: then nothing else would ever bring a radio back.
        forsaken = self.lock_step and fault.kind == "plug" and not self._listening()
        return forsaken or (fault.at_seconds or 0.0) <= self._now

    def _apply(self, fault: Fault) -> None:
        node = self.nodes[fault.radio]
        if fault.kind == "underflow" and node.tx.streaming:
            node.tx.lose(int(fault.value))
        elif fault.kind == "overflow":
            for queue in node.queues:
                queue.lose()
        elif fault.kind == "unplug" and node.plugged:
            node.plugged = node.closing = False
            node.queues.clear()
            self._mixer.begin_anew(node.index)
            node.tx.close()
            self._maybe_stop()
            self._power_on(node)
            self.unplugged(node.index)
            if math.isfinite(fault.seconds):
                self.fault(Fault("plug", (fault.at_seconds or 0.0) + fault.seconds, fault.radio))
        elif fault.kind == "plug" and not node.plugged:
            node.plugged = True
            self.plugged(node.index)
            self._tell_all()
