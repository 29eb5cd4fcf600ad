# SPDX-License-Identifier: GPL-3.0-or-later
"""The flowgraphs for Plutos as users run them: three programs on three virtual radios, and an application."""

import os
import socket
import subprocess
import sys
import time

import numpy as np
import pmt
import pytest
import zmq

from oac_blocks import pdus
from oac_blocks.radio.virtual.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.blocks.companion import FLOWS, ROOT, compile_flow

CLIENTS, VOTES = 2, 960
SETTLED_ROUNDS = 8
LIMIT_SECONDS = 150.0


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Application:
    """Gives both clients the same votes whenever a round is called, and keeps what comes of it."""

    def __init__(self, called_at, soft_votes_at, orders_at, payloads_at):
        self._context = zmq.Context()
        self._called, self._soft_votes, self._orders = (
            self._subscriber(address) for address in (called_at, soft_votes_at, orders_at)
        )
        self._payloads = [self._context.socket(zmq.PUSH) for _ in payloads_at]
        for pusher, address in zip(self._payloads, payloads_at, strict=True):
            pusher.connect(address)
        self._rng = np.random.default_rng(1)
        self._votes = {}
        self.wrong = {}  # rounds, and the share of wrong votes
        self.corrections = {}  # rounds, and what each client was told

    def _subscriber(self, address):
        subscriber = self._context.socket(zmq.SUB)
        subscriber.connect(address)
        subscriber.subscribe(b"")
        return subscriber

    def serve(self, milliseconds):
        poller = zmq.Poller()
        for subscriber in (self._called, self._soft_votes, self._orders):
            poller.register(subscriber, zmq.POLLIN)
        for subscriber, _ in poller.poll(milliseconds):
            message = pmt.deserialize_str(subscriber.recv())
            if subscriber is self._soft_votes:
                self._take(pdus.read(message, np.float32))
            elif subscriber is self._orders:
                order = pdus.read_notice(message)
                self.corrections.setdefault(order["round"], {})[order["client"]] = order["correction_samples"]
            else:
                self._vote(pdus.read_notice(message)["round"])

    def _vote(self, number):
        self._votes[number] = self._rng.choice(np.array([-1, 1], np.int8), VOTES)
        for pusher in self._payloads:
            pusher.send(pmt.serialize_str(pdus.make(self._votes[number], {"round": number})))

    def _take(self, soft_votes):
        number = pmt.to_long(soft_votes.metadata["round"])
        self.wrong[number] = np.mean(np.sign(soft_votes.data) != self._votes[number])

    def close(self):
        self._context.destroy(linger=0)


def start(program, home, **options):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    log = (home / f"{program.stem}-{options.get('client', '')}.log").open("w")
    return subprocess.Popen([sys.executable, program, *arguments], cwd=home, env=environment, stdout=log, stderr=log)


@pytest.mark.slow
def test_three_radios_find_each_other_and_vote(tmp_path):
    programs = {name: compile_flow(FLOWS / f"oac_{name}_pluto.grc", tmp_path) for name in ("client", "server")}
    names = ("status_at", "orders_at", "next_at", "soft_votes_at")
    server = {name: free_address() for name in names}
    payloads = [free_address() for _ in range(CLIENTS)]
    common = {"frequency_hz": 2.45e9, "sample_rate_hz": 1e6, "votes": VOTES, "clients": CLIENTS}
    running = []
    # In lock step time waits for all radios, so a busy machine changes nothing.
    air = spread(1 + CLIENTS, 1, ppm=10.0, snr_db=25.0)
    application = Application(server["next_at"], server["soft_votes_at"], server["orders_at"], payloads)
    with VirtualPlutos(air, lock_step=True) as plutos:
        try:
            running.append(start(programs["server"], tmp_path, uri=plutos.uris[0], **server, **common))
            for client, uri in enumerate(plutos.uris[1:]):
                links = {"orders_from": server["orders_at"], "status_to": server["status_at"]}
                links["payload_at"] = payloads[client]
                running.append(start(programs["client"], tmp_path, uri=uri, client=client, **links, **common))
            deadline = time.monotonic() + LIMIT_SECONDS
            while len(application.wrong) < 2 * SETTLED_ROUNDS:
                application.serve(100)
                logs = "\n".join(file.read_text() for file in tmp_path.glob("*.log"))
                assert time.monotonic() < deadline, f"{len(application.wrong)} rounds in time\n{logs}"
                assert all(process.poll() is None for process in running), logs
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(30)
            application.close()
    settled = sorted(application.wrong)[-SETTLED_ROUNDS:]
    # Both clients vote alike. Without fading their tones cancel in at most a quarter of all pairs of QPSK symbols, and
    # of these votes every other one is wrong; four standard errors above that.
    most = 1 / 8 + 4 * np.sqrt(1 / 8 * 7 / 8 / VOTES)
    assert max(application.wrong[number] for number in settled) < most
    assert np.mean([application.wrong[number] for number in settled]) < 1 / 8
    for client in range(CLIENTS):
        told = [application.corrections[number][client] for number in settled]
        assert np.ptp(told) < 0.2  # the crystals are constant, and so is what they need
