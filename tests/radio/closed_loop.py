# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench: a server and clients, each with its own Pluto and thread, and the calibration loop between them.

On the lock-step clock nothing depends on how threads are scheduled:

- a client reports an answer before it hands the samples of that answer to its radio. So when the server hears the end
  of a round, it has heard of all answers;
- the server lays a trigger only when all clients have their orders. Nobody is waiting for samples meanwhile in a way
  that changes what is sent: orders count for the coming trigger alone.
"""

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from calibration.loop import Answer, Arrivals, Loop, LoopSettings
from oac_blocks.dsp.client_stream import ClientStream, Order
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
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(4096, 8, 4, 2))

    @property
    def layout(self):
        num = Numerology(sample_rate_hz=self.sample_rate_hz)
        return RoundLayout(num, self.clients, groups=2, answer_samples=self.answer_samples)

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
    vote_errors: int = 0


class Client:
    """``ClientStream`` on a radio."""

    def __init__(self, number, radio, settings):
        self.number, self.radio, self.settings = number, radio, settings
        self.lock = threading.Lock()
        self.stream = ClientStream(
            number, settings.layout, TriggerSearch(span_rows=4),
            turnaround_samples=settings.turnaround_samples, votes=settings.votes, amplitude=AMPLITUDE,
        )  # fmt: skip
        self.happened = []

    def run(self, stop):
        self.radio.start(self.settings.stream)
        while not stop.is_set():
            block = self.radio.receive(60.0)
            with self.lock:
                self.happened += [self.stream.gap(reason) for reason in block.gaps]
                out, happened = self.stream.push(block.samples)
                self.happened += happened
            self.radio.transmit(out, 60.0)

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
        self.server_radio.start(stream)
        self._place = stream.primed_blocks * stream.block_samples
        pause, trigger_at, plan, votes = _PAUSE_BLOCKS, None, None, None
        while len(self.log) < rounds:
            block = self.server_radio.receive(60.0)
            heard = self.server.gap() if block.gaps else []
            heard += self.server.push(block.samples)
            out = np.zeros(stream.block_samples, np.complex64)
            pause -= 1
            if pause == 0:
                plan, votes = self._order()
                trigger_at = self._place
                out[: len(trigger())] = TRIGGER_AMPLITUDE * trigger()
            for one in heard:
                self._finish(plan, one, trigger_at, votes)
                pause = _PAUSE_BLOCKS
            self.server_radio.transmit(out, 60.0)
            self._place += len(out)

    def _order(self):
        plan = self.loop.plan()
        votes = self._rng.choice(np.array([-1, 1], np.int8), (self.settings.clients, self.settings.votes))
        for order, client in zip(plan.orders, self.clients, strict=True):
            client.order(order, votes[order.client])
        self.server.expect(plan.round, plan.kind, self.settings.votes)
        return plan, votes

    def _finish(self, plan, heard: HeardRound, trigger_at, votes):
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
        self.loop.measured(
            Arrivals(heard.round, heard.kind, heard.trigger_sample, heard.offset_samples, heard.sigma_samples,
                     heard.power_db, heard.cfo_rad, heard.snr_db)
        )  # fmt: skip
        errors = 0
        if heard.soft_votes is not None and len(answered) == len(self.clients):
            sums = votes.astype(int).sum(axis=0)
            errors = int(np.count_nonzero((np.sign(heard.soft_votes) != np.sign(sums)) & (sums != 0)))
        self.log.append(
            RoundLog(
                plan.round, plan.kind, [view.state for view in self.loop.clients], heard.offset_samples.tolist(),
                [self._residual(n, answered.get(n), trigger_at) for n in range(len(self.clients))], corrections, errors,
            )
        )  # fmt: skip

    def _residual(self, client, status, trigger_at):
        """Where the answer truly arrived less where it was wanted, in the mean over the frame's sync symbols."""
        if status is None:
            return float("nan")
        layout, air, stream = self.settings.layout, self.air, self.settings.stream
        ears = air.nodes[0].queues[0]
        middle = layout.num.cp_samples + layout.num.fft_size / 2  # of a symbol: a clock that is off moves through it
        starts = np.array([middle])
        if status.sent != "acquire":
            starts = middle + layout.frame(self.settings.votes).sync_starts_samples()
        wanted = air.arrival(0, air.nodes[0].tx.buffer, trigger_at, 0, ears) + layout.answer_samples
        primed = stream.primed_blocks * stream.block_samples
        sent = air.nodes[1 + client].tx.buffer
        slot = layout.sequence_start_samples(client) if status.sent == "acquire" else 0
        # A sequence is wanted at its slot.
        arrivals = [air.arrival(1 + client, sent, primed + status.answer_sample + s, 0, ears) - s for s in starts]
        return float(np.mean(arrivals)) - wanted - slot
