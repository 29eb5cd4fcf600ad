# SPDX-License-Identifier: GPL-3.0-or-later
"""Two transports around the round engine, with the same faults: threads on virtual Plutos, and a GNU Radio loopback.

Both are in lock step, and the time of the flowgraph's engine is the test's: no outcome depends on the machine.
A fault is a method of both classes; it happens once, at its own moment of the coming burst.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np

from oac_blocks.bench.flows.loopback import LoopbackSettings, loopback
from oac_blocks.bench.threads.bench import Bench, BenchSettings
from oac_blocks.blocks import round_control as round_control_module
from oac_blocks.blocks.support import pdus
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from oac_blocks.rounds.delivery import Delivery, DeliveryRules
from oac_blocks.rounds.messages import numbers_in
from tests.radio.closed_loop import CONFIG
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until

CLIENTS, VOTES = 3, 300
MOST_ROUNDS = 12  # of the radios, for a burst
GAP_STEP = 512  # samples, fewer than an answer has
TIMEOUT = 1000.0  # of the flowgraph's engine, in seconds of the test's own clock


@dataclass(frozen=True)
class Outcome:
    """What became of a burst."""

    verdict: str
    heard: tuple[int, ...]
    repeated: bool  # was a payload round played again? One that is given up was


def own_votes():
    """Each client votes on entries of its own, so that every decision is one client's."""
    votes = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), (CLIENTS, VOTES))
    for client in range(CLIENTS):
        votes[client, np.arange(VOTES) % CLIENTS != client] = 0
    return votes


class Transport:
    """What a test does with a transport: bursts, and one fault at a time.

    ``absent`` are clients whose radio goes away before the first round.
    """

    def __init__(self, absent=()):
        self.absent = absent
        self.stack = ExitStack()
        self.votes = own_votes()
        self.gone = set()  # clients whose radio was unplugged

    def __enter__(self):
        self.open()
        self.align()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def align(self):
        """Play rounds until the server knows who is gone, and all others are tracking.

        On threads the server hears of a radio that is gone at once, in flowgraphs it misses the client for some rounds.
        """
        here = set(range(CLIENTS)) - self.gone
        until(lambda: self.play() and self.tracking() == here, "a server that knows who is there")

    def burst(self):
        """Play rounds until one counts or the burst is given up, as both airs do."""
        delivery = Delivery(range(CLIENTS), VOTES, DeliveryRules(most_rounds=MOST_ROUNDS))
        payload_rounds = 0
        while True:
            is_payload, heard, soft_votes, able = self.play()
            entries = 0 if soft_votes is None else len(soft_votes)
            payload_rounds += is_payload
            verdict, _ = delivery.judge(heard, entries, able)
            if verdict == "accept":
                for client in heard:
                    own = self.votes[client] != 0
                    wrong = np.count_nonzero(np.sign(soft_votes[own]) != self.votes[client, own])
                    assert wrong == 0, (client, heard, wrong)
            if verdict != "play again":
                return Outcome(verdict, tuple(heard), payload_rounds > 1 or verdict == "give up")


class OnThreads(Transport):
    """Threads on virtual Plutos."""

    def open(self):
        from oac_blocks.radio.pluto import PlutoRadio

        air = spread(CLIENTS + 1, 1, ppm=20, snr_db=26)
        here = CLIENTS + 1 - len(self.absent)  # the time of the air begins when so many radios are there
        self.served = self.stack.enter_context(VirtualPlutos(air, lock_step=True, expected=here))
        self.openers = [partial(PlutoRadio, uri, CONFIG, timeout_seconds=120) for uri in self.served.uris]
        self.begin()
        self.unplug(*self.absent)
        for client in self.absent:
            until(lambda client=client: self.bench.nodes[client].absent, "a client that knows that its radio is gone")

    def begin(self):
        settings = BenchSettings(CLIENTS, votes=VOTES, retry_seconds=0.05)
        self.bench = Bench(self.openers[0], self.openers[1:], settings)
        self.bench.__enter__()
        self.stack.callback(self.bench.close)

    def tracking(self):
        return {n for n, view in enumerate(self.bench.loop.clients) if view.state == "tracking"}

    def play(self):
        outcome = self.bench.play(self.votes)
        return outcome.kind == "payload", outcome.heard, outcome.soft_votes, outcome.able

    # Faults

    def unplug(self, *clients):
        self.gone.update(clients)
        for client in clients:
            self.served.fault(f"unplug {client + 1}")

    def unplug_while_arming(self, *clients):
        """After the last client has its orders, and before the trigger."""
        self._after(self.bench.nodes[-1], "order", lambda: self.unplug(*clients))

    def unplug_in_the_burst(self, client):
        """When the client has begun its answer, which does not get out any more."""
        node = self.bench.nodes[client]
        push = node._stream.push

        def push_until_it_answers(samples):
            out, happened = push(samples)
            if any(status.event == "answered" for status in happened):
                del node._stream.push
                self.unplug(client)
            return out, happened

        node._stream.push = push_until_it_answers

    def gap_at_a_client(self, client):
        self._after(self.bench, "_begin", lambda: self.served.fault(f"overflow {client + 1}"))

    def gap_at_the_server(self):
        self._after(self.bench, "_begin", lambda: self.served.fault("overflow 0"))

    def late_votes(self, client):
        node = self.bench.nodes[client]
        order = node.order

        def without_votes(what, _votes):
            del node.order
            return order(what, None)

        node.order = without_votes

    def silent_trigger(self):
        loud = self.bench.settings
        silent = replace(loud, trigger_amplitude=1e-9)
        self._after(self.bench, "_begin", lambda: setattr(self.bench, "settings", silent))
        self._after(self.bench, "_finish", lambda: setattr(self.bench, "settings", loud))

    def restart_a_client(self, client):
        """It begins a new epoch. That its radio is opened anew is tested in test_thread_bench.py."""
        self.bench.nodes[client]._break("started")

    def restart_the_server(self):
        self.bench.close()
        self.begin()
        self.align()

    def _after(self, thing, name, do):
        """Do something once, behind the next call of a method."""
        method = getattr(thing, name)

        def call(*arguments):
            result = method(*arguments)
            if name in thing.__dict__:
                delattr(thing, name)
                do()
            return result

        setattr(thing, name, call)


class OnFlowgraphs(Transport):
    """The flowgraph of the loopback. A client whose radio is gone says nothing, and sends nothing."""

    def open(self):
        self.now = 0.0
        real, self.time = round_control_module.time, SimpleNamespace(monotonic=lambda: self.now)
        round_control_module.time = self.time
        self.stack.callback(setattr, round_control_module, "time", real)
        settings = LoopbackSettings(
            clients=CLIENTS, votes=VOTES, snr_db=25.0, profile="flat", fading="none", arm_seconds=TIMEOUT
        )
        self.flow = loopback(settings)
        self.flow.control.set_deadline_seconds(TIMEOUT)
        self.flow.msg_connect((self.flow.control, "missed"), (self.flow.calibrator, "arrivals"))
        self.called, self.decided = (
            Messages(self.flow, block, port)
            for block, port in ((self.flow.control, "next"), (self.flow.receiver, "soft_votes"))
        )
        self.late = set()  # clients that have no votes in time
        self.calls = 0  # that were answered
        self.unplug(*self.absent)
        self.stack.enter_context(running(self.flow))

    @property
    def engine(self):
        return self.flow.control._engine

    def tracking(self):
        return {n for n, view in enumerate(self.flow.calibrator.clients) if view.state == "tracking"}

    def play(self):
        """The next round. One of acquisition goes by itself."""
        number = self.flow.calibrator.round
        self._pump(lambda: len(self.called) > self.calls or self.flow.calibrator.round > number)
        if len(self.called) == self.calls:
            return False, (), None, ()
        call = pdus.read_notice(self.called[len(self.called) - 1])
        self.calls = len(self.called)
        able = self.tracking()
        for client in set(range(CLIENTS)) - self.gone - self.late:
            message = pdus.make(self.votes[client], {"round": call["round"], "run": call["run"]})
            post(self.flow.clients[client], "payload", message)
        self._pump(lambda: self.flow.calibrator.round != call["round"])  # the round is over
        self.late.clear()
        self.decided.wait_for_sent()  # decisions go out before what ends the round, but to another thread
        for pdu in reversed(self.decided.pdus(np.float32)):
            about = pdus.read_notice(pdus.make(pdu.data, dict(pdu.metadata.items())))
            if (about["round"], about["run"]) == (call["round"], call["run"]):
                return True, numbers_in(about["heard"]), pdu.data, able
        return True, (), None, able

    def _pump(self, happened):
        """Wait for something. Time passes when clients that are gone or late, or the trigger, are waited for."""
        until(lambda: self._pass_time() or happened(), "a round of the flowgraph")

    def _pass_time(self):
        flow, fired = self.flow, self.engine.fired
        waiting = set(self.engine.waiting_for)
        if waiting and waiting <= self.gone | self.late:
            self._wake_later()
            until(lambda: self.engine.fired > fired, "the end of the arm timeout")
        elif flow.trigger.amplitude == 0.0 and flow.trigger.begun > self.begun_before:
            number = flow.calibrator.round
            flow.trigger.set_amplitude(0.5)  # of the next trigger
            self._wake_later()
            until(lambda: flow.calibrator.round > number, "the end of the round")

    def _wake_later(self):
        self.now += 2 * TIMEOUT
        post(self.flow.control, "time_is_up", pdus.as_pmt("now"))

    # Faults

    def unplug(self, *clients):
        self.gone.update(clients)
        for client in clients:
            self.flow.clients[client].set_amplitude(0.0)
            self.flow.clients[client]._tell = lambda _happened: None

    def unplug_while_arming(self, *clients):
        """The round is called for, and these clients have not got their votes."""
        self._pump(lambda: len(self.called) > self.calls)
        self.unplug(*clients)

    def unplug_in_the_burst(self, client):
        """It still says that it answers, and nothing is heard of that."""
        block = self.flow.clients[client]
        block.set_amplitude(0.0)
        tell = block._tell

        def tell_once_more(happened):
            happened = list(happened)
            tell(happened)
            if any(status.event == "answered" for status in happened):
                self.unplug(client)

        block._tell = tell_once_more

    def gap_at_a_client(self, client):
        """In the samples that hold the trigger."""
        self._gap_once(self.flow.clients[client], lambda: self.engine.phase == "under way")

    def gap_at_the_server(self):
        """At the beginning of the clients' answer, wherever the scheduler cuts the stream into chunks.

        Not before: samples of the answer show that all clients have heard the trigger. Otherwise the orders of the next
        round might overtake it.
        """
        receiver = self.flow.receiver
        stream, push = receiver._stream, receiver._stream.push

        def push_until_the_answer_begins(samples):
            for start in range(0, len(samples), GAP_STEP):
                yield from push(samples[start : start + GAP_STEP])
                if stream._open is not None and stream._position > stream._open.wanted_at:
                    del stream.push
                    receiver._gap(stream._position, "overflow")
                    yield from push(samples[start + GAP_STEP :])
                    return

        stream.push = push_until_the_answer_begins

    def _gap_once(self, block, when):
        find = block._gaps.find

        def find_one(first, tags):
            if not when():
                return find(first, tags)
            block._gaps.find = find
            return [(first + 1, "overflow")]

        block._gaps.find = find_one

    def late_votes(self, client):
        self.late.add(client)

    def silent_trigger(self):
        """The trigger that begins next. Its round is under way: it began after the engine had fired it."""
        self.begun_before = self.flow.trigger.begun
        self.flow.trigger.set_amplitude(0.0)

    def restart_a_client(self, client):
        self._pump(lambda: len(self.called) > self.calls)
        block = self.flow.clients[client]
        epoch = block.epoch
        post(block, "gap", pdus.as_pmt("started"))
        until(lambda: block.epoch > epoch and self.flow.calibrator.clients[client].epoch > epoch)

    def restart_the_server(self):
        """Its calibrator begins anew and counts from 0; the clients do not know of it."""
        self._pump(lambda: len(self.called) > self.calls)
        self.flow.calibrator.start()
        assert self.flow.calibrator.round == 0
        self.calls = len(self.called)
        self.align()
