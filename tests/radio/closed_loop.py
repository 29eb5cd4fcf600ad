# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench: a server and clients, each with its own Pluto and thread, and the calibration loop between them.

On the lock-step clock nothing depends on how threads are scheduled:

- a client reports an answer before it hands the samples of that answer to its radio. So when the server hears the end
  of a round, it has heard of all answers;
- the server lays a trigger only when all clients have their orders. Nobody is waiting for samples meanwhile in a way
  that changes what is sent: orders count for the coming trigger alone.

On the wall clock there are gaps. Whoever had one opens both streams anew, with its silence ahead: a queue that ran
empty once would soon do so again.
"""

import dataclasses
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from calibration.loop import Answer, Arrivals, Loop, LoopSettings
from oac_blocks.dsp.client_stream import ClientStream, Order
from oac_blocks.dsp.detection import bank_up_to
from oac_blocks.dsp.numerology import Numerology
from oac_blocks.dsp.rounds import RoundLayout
from oac_blocks.dsp.server_stream import HeardRound, ServerStream
from oac_blocks.dsp.trigger import trigger
from oac_blocks.dsp.trigger_search import TriggerSearch
from oac_blocks.radio.base import RadioStopped, StreamConfig

AMPLITUDE, TRIGGER_AMPLITUDE = 0.1, 0.3
_PAUSE_BLOCKS = 4  # from the end of a round to the next trigger


@dataclass(frozen=True)
class BenchSettings:
    clients: int = 2
    sample_rate_hz: float = 2.5e6
    votes: int = 768
    answer_samples: int = 65_536
    slot_samples: int = 8192
    max_cfo_rad: float = 0.175
    reopens: bool = False  # after a gap
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(4096, 8, 4, 2))

    @property
    def layout(self):
        num = Numerology(sample_rate_hz=self.sample_rate_hz)
        return RoundLayout(num, self.clients, 1, 2, self.answer_samples, self.slot_samples)

    @property
    def round_samples(self):
        """The longest answer."""
        return max(self.layout.frame(self.votes).samples, self.layout.acquisition_samples)

    @property
    def turnaround_samples(self):
        """What is primed delays every answer, and is known."""
        return self.answer_samples - self.stream.primed_blocks * self.stream.block_samples


@dataclass
class RoundLog:
    round: int
    kind: str
    states: list[str]  # after the round
    offsets: list[float]  # as measured
    residuals: list[float]  # the truth, NaN for a client that did not answer
    corrections: list[float]
    seconds: float = field(default=0.0, repr=False)  # of the air, about


class Client:
    """``ClientStream`` on a radio."""

    def __init__(self, number, radio, settings):
        self.number, self.radio, self.settings = number, radio, settings
        self.lock = threading.Lock()
        self.stream = ClientStream(
            number, settings.layout, TriggerSearch(span_rows=4, cfo_bank_rad=bank_up_to(settings.max_cfo_rad)),
            turnaround_samples=settings.turnaround_samples, votes=settings.votes, amplitude=AMPLITUDE,
        )  # fmt: skip
        self.happened = []
        self.begun_at = 0  # sample of the client's stream that its present buffers begin with
        self.gaps = 0
        self.freeze_seconds = 0.0  # asked for by a test: the process is held up once

    def run(self, stop):
        self.radio.start(self.settings.stream)
        count = 0
        while not stop.is_set():
            block = self.radio.receive(60.0)
            if block.gaps:
                with self.lock:
                    self.happened.append(self.stream.gap(block.gaps[0]))
                    if self.settings.reopens:
                        self.begun_at = count
                self.gaps += 1
                if self.settings.reopens:
                    self.radio.stop()
                    self.radio.start(self.settings.stream)
                    continue
            with self.lock:
                out, happened = self.stream.push(block.samples)
                self.happened += happened
            count += len(out)
            self.radio.transmit(out, 60.0)
            pause, self.freeze_seconds = self.freeze_seconds, 0.0
            time.sleep(pause)

    def order(self, order, votes):
        with self.lock:
            if order.epoch != self.stream.epoch:
                return
            fields = {f.name for f in dataclasses.fields(Order)}
            self.stream.order(Order(**{k: v for k, v in dataclasses.asdict(order).items() if k in fields}))
            if order.mode == "payload":
                self.stream.payload(order.round, votes)

    def take(self):
        with self.lock:
            happened, self.happened = self.happened, []
        return happened


class Bench:
    """Radio 0 is the server. ``air`` is the virtual radios' own, for the truth."""

    def __init__(self, radios, air, settings, loop=None):
        self.settings, self.air = settings, air
        self.server_radio = radios[0]
        self.clients = [Client(n, radio, settings) for n, radio in enumerate(radios[1:])]
        layout = settings.layout
        self.server = ServerStream(layout, settings.votes, span_rows=4)
        known = LoopSettings(turnaround_samples=float(layout.answer_samples), sample_rate_hz=settings.sample_rate_hz)
        self.loop = loop or Loop(settings.clients, known)
        self.log = []
        self._rng = np.random.default_rng(5)
        self._last_trigger = 0.0
        self.gaps = 0
        self._place = 0  # of the next block that the server sends, in its transmit stream

    def run(self, rounds):
        stop = threading.Event()
        with ThreadPoolExecutor(len(self.clients)) as pool:
            running = [pool.submit(client.run, stop) for client in self.clients]
            try:
                self._serve(rounds)
            finally:
                stop.set()
                for client in self.clients:
                    client.radio.stop()
        for one in running:
            error = one.exception()
            if error is not None and not isinstance(error, RadioStopped):
                raise error
        return self.log

    def _serve(self, rounds):
        stream = self.settings.stream
        self._start()
        wait, trigger_at, plan = _PAUSE_BLOCKS, None, None  # blocks until the next trigger; negative: since it
        longest = 4 + 2 * stream.primed_blocks + stream.kernel_buffers + stream.queued_blocks
        longest += -(-(self.settings.answer_samples + self.settings.round_samples) // stream.block_samples)
        while len(self.log) < rounds:
            block = self.server_radio.receive(60.0)
            heard = []
            if block.gaps:
                self.gaps += 1
                heard = self.server.gap()
            reopened = bool(block.gaps) and self.settings.reopens
            if reopened:
                self.server_radio.stop()
                self._start()
            else:
                heard += self.server.push(block.samples)
            out = np.zeros(stream.block_samples, np.complex64)
            wait -= 1
            if wait == 0:
                plan = self._order()
                trigger_at = self._place
                out[: len(trigger())] = TRIGGER_AMPLITUDE * trigger()
            elif wait < -longest and not heard:
                heard = [None]  # nobody heard the trigger, not even the server
            if wait < 0:
                for one in heard[:1]:
                    self._finish(plan, one, trigger_at)
                    wait = _PAUSE_BLOCKS
            if not reopened:
                self.server_radio.transmit(out, 60.0)
                self._place += len(out)

    def _start(self):
        self.server_radio.start(self.settings.stream)
        self._place = self.settings.stream.primed_blocks * self.settings.stream.block_samples

    def _order(self):
        plan = self.loop.plan()
        votes = self._rng.choice(np.array([-1, 1], np.int8), (self.settings.clients, self.settings.votes))
        for order, client in zip(plan.orders, self.clients, strict=True):
            client.order(order, votes[order.client])
        self.server.expect(plan.round, plan.kind, self.settings.votes)
        return plan

    def _finish(self, plan, heard: HeardRound | None, trigger_at):
        corrections = [order.correction_samples for order in plan.orders]
        answered = {}
        for client in self.clients:
            for status in client.take():
                if status.event == "gap":
                    self.loop.gap(client.number, status.epoch, status.reason)
                elif status.event == "answered" and status.round == plan.round:
                    answered[client.number] = status
                    self.loop.answered(
                        Answer(client.number, status.round, status.epoch, status.sent, status.correction_samples,
                               status.trigger_sample, status.cfo_rad, status.snr_db)
                    )  # fmt: skip
        nothing = np.full(len(self.clients), np.nan)
        arrivals = Arrivals(plan.round, plan.kind, self._last_trigger, *[nothing] * 5)
        if heard is not None:
            arrivals = Arrivals(
                heard.round, heard.kind, heard.trigger_sample, heard.offset_samples, heard.sigma_samples,
                heard.power_db, heard.cfo_rad, heard.snr_db,
            )  # fmt: skip
            self._last_trigger = heard.trigger_sample
        self.loop.measured(arrivals)
        self.log.append(
            RoundLog(
                plan.round, plan.kind, [view.state for view in self.loop.clients], arrivals.offset_samples.tolist(),
                [self._residual(n, answered.get(n), trigger_at) for n in range(len(self.clients))], corrections,
                self.air.now if self.air else 0.0,
            )
        )  # fmt: skip

    def _residual(self, client, status, trigger_at):
        """Where the answer truly arrived less where it was wanted, in the mean over the frame's sync symbols."""
        if status is None or not self.air.nodes[0].queues or self.air.nodes[1 + client].tx.buffer is None:
            return float("nan")
        layout, air, stream = self.settings.layout, self.air, self.settings.stream
        ears = air.nodes[0].queues[0]
        middle = layout.num.cp_samples + layout.num.fft_size / 2  # of a symbol: a clock that is off moves through it
        starts = np.array([middle])
        if status.sent != "acquire":
            starts = middle + layout.frame(self.settings.votes).sync_starts_samples()
        wanted = air.arrival(0, air.nodes[0].tx.buffer, trigger_at, 0, ears) + layout.answer_samples
        primed = stream.primed_blocks * stream.block_samples - self.clients[client].begun_at
        sent = air.nodes[1 + client].tx.buffer
        slot = layout.sequence_start_samples(client) if status.sent == "acquire" else 0
        # A sequence is wanted at its slot.
        arrivals = [air.arrival(1 + client, sent, primed + status.answer_sample + s, 0, ears) - s for s in starts]
        return float(np.mean(arrivals)) - wanted - slot
