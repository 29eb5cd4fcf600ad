# SPDX-License-Identifier: GPL-3.0-or-later
"""A server's desk and some clients in one room, without sockets."""

import numpy as np

from fl_app.core.selection import make_policy
from fl_app.core.server import Server
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.steps.server_step import ServerOptions
from fl_app.link.caller import Caller, Result
from fl_app.link.desk import Desk
from fl_app.link.downlink import change_of, checksum_of, whole_model
from fl_app.link.terms import Terms
from fl_app.link.wire import Message, pack

D, K, N = 64, 16, 3
RATES = RateSchedule(0.1, rounds=10, name="cosine")


class Room:
    """A server's model, its desk and some clients in one room; messages wait in `mail` until they are delivered."""

    def __init__(self, mode="onebit", n=N, optimizer="sgd", **changes):
        self.now, self.round = 0.0, 0
        rng, options = np.random.default_rng(1), ServerOptions(optimizer)
        policy = make_policy("fair-k", D, K, rng=np.random.default_rng(2))
        self.server = Server(rng.normal(size=D).astype(np.float32), policy, RATES, mode, options.make(D))
        terms = {
            "n_clients": n,
            "d": D,
            "scheme": self.server.scheme,
            "optimizer": options,
            "config": "[run]\n",
            "config_hash": "c",
            "fingerprint": "f",
            "heartbeat_seconds": 1.0,
            "silent_seconds": 10.0,
            "cut_off_after": 5,
        }
        self.unreachable = set()
        self.desk = Desk(
            Terms(**{**terms, **changes}), lambda: whole_model(self.server), lambda who: who not in self.unreachable
        )
        self.desk.set_state(0, None, checksum_of(self.server), self.server.rate)
        self.callers = {}
        self.kinds = []  # of all that the desk has sent

    def connect(self, client, identity=None, **options):
        identity = identity or f"connection {client}".encode()
        self.callers[identity] = Caller(client, **options)
        return identity

    def up(self, identity, messages):
        """From a client to the desk, and what comes back to everybody it concerns."""
        for frames in messages:
            self.down(self.desk.handle(identity, None, [bytes(frame) for frame in frames], self.now))

    def down(self, outgoing):
        for one in outgoing:
            self.kinds.append(one.kind)
            caller = self.callers.get(one.identity)
            if caller is None:
                continue
            self.up(one.identity, caller.handle([bytes(frame) for frame in one.frames], self.now))
            if caller.phase == "preparing":
                self.up(one.identity, caller.prepared(D, "f"))

    def raw(self, identity, *args, **kwargs):
        """A message that no honest client sends."""
        self.kinds.clear()
        self.up(identity, [pack(Message(*args, **kwargs))])
        return list(self.kinds)

    def tick(self, *identities, seconds=1.0):
        self.now += seconds
        for identity in identities or list(self.callers):
            self.up(identity, self.callers[identity].tick())

    def ask(self, clients=None):
        self.down(self.desk.open("train", self.round, self.server.selected.size, self.now, clients))

    def answer(self, *identities, votes=None):
        for identity in identities or list(self.callers):
            work = self.callers[identity].next_work()
            assert work is not None, identity
            payload = np.ones(work.selected.size, np.int8) if votes is None else votes
            body = {"loss": 1.0, "seconds": 0.5, "sent": True}
            self.up(identity, self.callers[identity].finish(work, Result(body, {"payload": payload})))

    def close(self):
        """As the training loop does: add up, update, and show the desk."""
        answers = self.desk.close().answers
        sent = self.server.selected
        total = sum(answers[client].payload.astype(np.float32) for client in sorted(answers))
        self.server.update(total + np.float32(0.25), self.round)
        self.round += 1
        self.desk.set_state(self.round, change_of(self.server, sent), checksum_of(self.server), self.server.rate)
        return answers

    def assert_copies_are_right(self, *identities):
        for identity in identities or list(self.callers):
            assert self.callers[identity]._replica.w.tobytes() == self.server.w.tobytes()
