# SPDX-License-Identifier: GPL-3.0-or-later
"""The air that all radios share: what clients' sessions ask of it, and the thread that computes it.

``air_time`` says how its time passes, ``mixer`` what a receiver hears, and ``block_receiver`` when that is computed.

Memory is bounded whatever clients do: that of all kernel buffers together by ``MOST_SAMPLES_OF_ALL``, and that of a
transmission by what receivers have still to hear of it.

All methods may be called by any thread; ``run`` is the one that computes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import math
import threading
from collections.abc import Callable, Iterator, Sequence

from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.air_time import POLL_SECONDS, AirTime
from oac_blocks.radio.virtual.air.block_receiver import BlockReceiver
from oac_blocks.radio.virtual.air.device_changes import DeviceChanges
from oac_blocks.radio.virtual.air.echoes import Paths
from oac_blocks.radio.virtual.air.mixer import Mixer
from oac_blocks.radio.virtual.air.node import Node
from oac_blocks.radio.virtual.air.receiver import ReceiveQueue, Words
from oac_blocks.radio.virtual.air.transmitter import Block, Buffer
from oac_blocks.radio.virtual.air.truth import Truth
from oac_blocks.radio.virtual.faults import RadioFault
from oac_blocks.radio.virtual.iiod.attributes import refuse
from oac_blocks.radio.virtual.iiod.pluto_context import PlutoContext

MOST_BUFFER_SAMPLES = 1 << 24  # samples in all kernel buffers of one stream
MOST_SAMPLES_OF_ALL = 1 << 26  # samples in all kernel buffers of all streams, 4 bytes each
MOST_KERNEL_BUFFERS = 64
_BREATH_SECONDS = 1e-4
_MOST_BREATHS = 50


class SharedAir:
    """Radios that hear each other. See ``AirTime`` for ``lock_step`` and ``expected``.

    ``unplugged`` and ``plugged`` are called with the number of a radio that a fault takes away or brings back, so that
    the owner of the sockets can close and open them.
    """

    def __init__(
        self,
        settings: VirtualAirSettings,
        uris: Sequence[str] | None = None,
        *,
        lock_step: bool = False,
        expected: int | None = None,
        faults: Sequence[RadioFault] = (),
    ) -> None:
        self.settings = settings
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # a client came or went, or settings changed
        self._work = threading.Condition(lock)  # there may be something to compute
        self._count, self._waiting = threading.Lock(), 0  # threads that wait for the lock
        self._stopped = False
        names = uris or [f"radio {i}" for i in range(settings.radios)]
        self.nodes = [Node(i, settings, names[i], lock) for i in range(settings.radios)]
        self._time = AirTime(self.nodes, lock_step, expected, settings.tx_start)
        self._mixer = Mixer(settings, self.nodes)
        self._receiver = BlockReceiver(self._mixer, self._time)
        self._devices = DeviceChanges(self._mixer, self._time, self._tell_all)
        self._truth = Truth(settings, self.nodes, self._mixer.echoes)
        self._due: list[RadioFault] = []
        self.unplugged: Callable[[int], None] = lambda _: None
        self.plugged: Callable[[int], None] = lambda _: None
        with self._changed:
            for node in self.nodes:
                self._devices.power_on(node)
                node.tx.start_at = settings.tx_start(node.index) if lock_step else 0
        for fault in faults:
            self.fault(fault)

    @property
    def lock_step(self) -> bool:
        return self._time.lock_step

    @property
    def now(self) -> float:
        """Return the air's time in seconds."""
        with self.turn():
            return self._time.advance()

    @property
    def elapsed_seconds(self) -> float:
        """Return the seconds of the wall clock since the air was made."""
        return self._time.elapsed_seconds

    @property
    def slowed_seconds(self) -> float:
        """Return the seconds of the wall clock in which the air's time did not pass."""
        return self._time.slowed_seconds

    # What sessions ask for.

    def context(self, radio: int) -> PlutoContext:
        return self.nodes[radio].pluto

    @property
    def lock(self) -> threading.Condition:
        """The lock to hold while attributes are read or written."""
        return self._changed

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock, and let the computing thread know that a thread waits for it: it would not give it up."""
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
            node, time = self._plugged(radio), self._time
            count = node.kernel_buffers["rx"]
            self._check_size(samples, count, count)
            queue = ReceiveQueue(samples, count, mask, node.overflow)
            if not node.queues:
                time.advance()
                self._devices.follow_gain(node)
                node.next = node.rx_place(time.horizon() if time.lock_step else time.now)
                node.pending = node.pending[:0]
                time.note_step()
            node.queues.append(queue)
            self._forget()
            time.begin_if_complete()
            self._tell_all()
            return queue

    def close_rx(self, radio: int, queue: ReceiveQueue) -> None:
        with self.turn():
            node = self.nodes[radio]
            if queue in node.queues:
                node.gain_seconds = self._time.advance()
                node.queues.remove(queue)
                if not node.queues:
                    self._mixer.begin_anew(radio)
                node.closing = node.tx.buffer is not None
                self._time.stop_if_empty()
            self._tell_all()

    def pop_rx(self, radio: int, queue: ReceiveQueue, gone: Callable[[], bool]) -> Words:
        """Return the next block, as soon as there is one."""
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
            node, time = self._plugged(radio), self._time
            count = node.kernel_buffers["tx"]
            if node.tx.buffer is not None:
                refuse(errno.EBUSY)
            # One block more, or one loop more, may be on its way from the client.
            blocks = 2 if cyclic else count + 1
            self._check_size(samples, count, blocks)
            time.advance()
            time.note_step()
            if time.lock_step and time.started:
                now = node.next_seconds if node.queues else time.horizon()
                node.tx.start_at = max(node.tx.end, node.tx_place(now) + self.settings.tx_start(radio))
            elif not time.lock_step:
                node.tx.fill(node.tx_place(time.now))
            buffer = node.tx.open(count, cyclic, blocks * samples)
            time.begin_if_complete()
            self._tell_all()
            return buffer

    def close_tx(self, radio: int, buffer: Buffer) -> None:
        with self.turn():
            node = self.nodes[radio]
            if node.tx.buffer is buffer:
                node.tx.close()
                node.closing = bool(node.queues)
                self._time.stop_if_empty()
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
                tx.fill(node.tx_place(self._time.advance()))
            tx.push(block)
            if self.lock_step:
                self._work.notify_all()

    # The truth, which clients can only estimate.

    def streams(self, radio: int) -> tuple[ReceiveQueue | None, Buffer | None]:
        """Return the first receive buffer and the transmit buffer that are open now; None for one that is not."""
        with self.turn():
            node = self.nodes[radio]
            return node.queues[0] if node.queues else None, node.tx.buffer

    def arrival(
        self, sender: int, buffer: Buffer | None, sample: float, receiver: int, queue: ReceiveQueue | None
    ) -> float:
        """Return where in the receiver's buffer a sample of the sender's buffer arrives; see ``Truth.arrival``."""
        with self.turn():
            return self._truth.arrival(sender, buffer, sample, receiver, queue)

    def paths(self, sender: int, buffer: Buffer | None, sample: float, receiver: int) -> Paths:
        """Return the echoes that follow that arrival; see ``Truth.paths``."""
        with self.turn():
            return self._truth.paths(sender, buffer, sample, receiver)

    # Faults on purpose.

    def fault(self, fault: RadioFault) -> None:
        """Let a fault happen at its time, or now if it has none."""
        with self.turn():
            if fault.at_seconds is None:
                fault = dataclasses.replace(fault, at_seconds=self._time.advance())
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

    def _is_due(self, fault: RadioFault) -> bool:
        # Lock-step time stands still when no radio listens: then nothing else would ever bring a radio back.
        forsaken = self.lock_step and fault.kind == "plug" and not self._time.listening()
        return forsaken or (fault.at_seconds or 0.0) <= self._time.now

    def _apply(self, fault: RadioFault) -> None:
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
            self._time.stop_if_empty()
            self._devices.power_on(node)
            self.unplugged(node.index)
            if math.isfinite(fault.seconds):
                self.fault(RadioFault("plug", (fault.at_seconds or 0.0) + fault.seconds, fault.radio))
        elif fault.kind == "plug" and not node.plugged:
            node.plugged = True
            self.plugged(node.index)
            self._tell_all()

    # The thread that computes.

    def run(self) -> None:
        """Compute what can be computed and wait for more, until ``stop``."""
        with self._changed:
            while not self._stopped:
                # Even after some progress other threads get the lock in between.
                self._work.wait(_BREATH_SECONDS if self.step() else self._time.pause_seconds())

    def stop(self) -> None:
        with self.turn():
            self._stopped = True
            self._tell_all()

    def step(self) -> bool:
        """Go once over all receivers; return whether there was anything to do."""
        with self._changed:
            time, progress = self._time, False
            time.advance()
            while self._due and self._is_due(self._due[0]):
                self._apply(self._due.pop(0))
            if time.started and not time.stands_still():
                for node in time.listening():
                    progress |= bool(node.queues) and self._receiver.receive(node)
                    self._let_others_in()
            if not time.lock_step:
                for node in self.nodes:
                    if node.tx.streaming:
                        node.tx.fill(node.tx_place(time.now))
            self._note_sent()
            self._forget()
            time.note_step()
            return progress

    def _let_others_in(self) -> None:
        for _ in range(_MOST_BREATHS):
            if not self._waiting:
                return
            self._work.wait(_BREATH_SECONDS)

    def _note_sent(self) -> None:
        """Free the blocks that are on the air."""
        time = self._time
        time.advance()
        listening = [node.next_seconds for node in time.listening()]
        for node in self.nodes:
            if node.tx.buffer is None:
                continue
            was_full = node.tx.full
            if not time.lock_step:
                node.tx.sent(node.tx_place(time.now))
            elif time.started:
                node.tx.sent(node.tx_place(min(listening, default=time.now)))
            if was_full and not node.tx.full:
                node.tx_room.notify_all()

    def _forget(self) -> None:
        """Drop what no receiver can ask for any more."""
        now = self._time.now
        for node in self.nodes:
            self._mixer.forget(node, now)
        self._mixer.forget_faults(min([now, *(node.next_seconds for node in self._time.listening())]))

    # Inside, with the lock held.

    def _check_size(self, samples: int, kernel_buffers: int, blocks: int) -> None:
        """Refuse a stream of this many blocks if there is no memory for it."""
        if samples < 1:
            refuse()
        held = sum(node.tx.held_samples + sum(one.reserved_samples for one in node.queues) for node in self.nodes)
        if samples * kernel_buffers > MOST_BUFFER_SAMPLES or held + samples * blocks > MOST_SAMPLES_OF_ALL:
            refuse(errno.ENOMEM)

    def _plugged(self, radio: int) -> Node:
        node = self.nodes[radio]
        return node if node.plugged else refuse(errno.ENODEV)

    def _tell_all(self) -> None:
        """Wake all threads: a client came or went, or settings changed."""
        for node in self.nodes:
            node.rx_ready.notify_all()
            node.tx_room.notify_all()
        self._work.notify_all()
        self._changed.notify_all()

    def _wait(self, for_: threading.Condition, gone: Callable[[], bool], open_: Callable[[], bool]) -> None:
        for_.wait(POLL_SECONDS)
        if self._stopped or not open_():
            refuse(errno.EBADF)
        if gone():
            refuse(errno.ECONNRESET)
