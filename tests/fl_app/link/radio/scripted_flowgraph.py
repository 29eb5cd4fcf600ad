# SPDX-License-Identifier: GPL-3.0-or-later
"""A flowgraph that is a script: its sockets are real, and the test says what it sends, step by step."""

import numpy as np
import pmt
import zmq

from fl_app.air import AirSettings
from fl_app.air.base import Unseen
from fl_app.link.radio_bench import RadioBench
from fl_app.link.radio_uplink import RadioAir
from oac_blocks.bench.flows.endpoints import Endpoints
from oac_blocks.blocks.support import pdus
from oac_blocks.rounds.messages import listed
from tests.support.polling import DEADLINE_MS, until

AIR = AirSettings(name="gnuradio", mode="onebit")
K = 40
RUN = 900


class CountingBench(RadioBench):
    """Knows how many messages it has read."""

    taken = 0

    def _read(self, socket, read):
        def counted(message):
            self.taken += 1
            return read(message)

        return super()._read(socket, counted)


class Flowgraph:
    """Its sockets. `script` is called with the flowgraph whenever the server listens: it says what happens next.

    All that a step of the script sends has been read when the next step begins, however slow the sockets are.
    """

    def __init__(self, folder, clients=3):
        self.address, self.clients = f"ipc://{folder}", clients
        endpoints = Endpoints.at(self.address)
        self._context = zmq.Context()
        self._published = {}
        for name in ("next", "soft_votes", "report"):
            self._published[name] = self._context.socket(zmq.XPUB)
            self._published[name].bind(getattr(endpoints, name))
        self._ballot, self._payload = (self._context.socket(zmq.PULL) for _ in range(2))
        self._ballot.bind(endpoints.ballot)
        self._payload.bind(endpoints.payload)
        self.bench, self.sent = CountingBench(self.address, clients, AIR), 0
        for socket in self._published.values():  # the subscription has arrived: nothing is lost from here on
            assert socket.poll(DEADLINE_MS)
            socket.recv()
        self.asked = list(range(clients))  # clients that were to transmit last
        self.told = []  # what clients were told: round of the radios, first, stop
        self.scales = []  # the scale that they were told with it, if any
        self.reported = {}  # RMS and peak of each client's entries

    def uplink(self, script, clients, t=0, k=K, air=AIR, **options):
        """The round of the air, while the script goes on step by step."""
        self._steps = iter(script(self))
        return RadioAir(air, self.bench, self, **options).uplink(Unseen(k), np.array(clients), t)

    # What the air needs of the server.

    def listen(self, _undecided_seconds):
        before = self.sent
        next(self._steps, None)
        self.settle()
        if self.sent == before:
            zmq.select(self.bench.sockets, [], [], 0.05)

    def transmit(self, clients, t, burst):
        self.asked = list(clients)
        self.told.append((t, burst["radio_round"], burst["run"], burst["first"], burst["stop"]))
        self.scales.append(burst.get("scale"))

    def train_again(self, _t):
        return self.asked

    def levels(self, clients):
        return tuple(np.array(column) for column in zip(*(self.reported[client] for client in clients), strict=True))

    def settle(self):
        """Wait until the server has read all that was sent."""
        until(lambda: self.bench.take() or self.bench.taken == self.sent, "the server's reading of all messages")

    def send(self, name, message):
        self.sent += 1
        self._published[name].send(message if isinstance(message, bytes) else pmt.serialize_str(message))

    def call(self, number, run=RUN, **more):
        self.send("next", pdus.notice({"round": number, "run": run, **more}))

    def decide(self, number, voters, votes=K, run=RUN, value=1.0, **waveform):
        heard = listed(self.asked[:voters])
        about = {
            "round": number,
            "run": run,
            "voters": voters,
            "heard": heard,
            "snr_db": 10.0,
            "trigger_sample": 0.0,
            **waveform,
        }
        self.send("soft_votes", pdus.make(np.full(votes, value, np.float32), about))

    def report(self, *states, number=0, **waveform):
        """Known to the server when this returns: sockets overtake each other."""
        self.send("report", pdus.notice({"round": number, "states": ", ".join(states), **waveform}))
        self.settle()

    def ballot(self):
        assert self._ballot.poll(DEADLINE_MS)
        return pdus.read(pmt.deserialize_str(self._ballot.recv()), np.int8)

    def payload(self):
        assert self._payload.poll(DEADLINE_MS)
        return pdus.read(pmt.deserialize_str(self._payload.recv()), np.int8)

    def close(self):
        self.bench.close()
        self._context.destroy(linger=0)
