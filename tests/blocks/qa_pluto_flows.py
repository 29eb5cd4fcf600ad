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
from oac_blocks.flows.endpoints import bench_endpoints
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


def play(tmp_path, start_server, start_client, server, payloads):
    """Rounds until enough are settled; the programs are started by what is given, on virtual radios in lock step."""
    running = []
    # In lock step time waits for all radios, so a busy machine changes nothing.
    air = spread(1 + CLIENTS, 1, ppm=10.0, snr_db=25.0)
    application = Application(server["next"], server["soft_votes"], server["orders"], payloads)
    with VirtualPlutos(air, lock_step=True) as plutos:
        try:
            running.append(start_server(plutos.uris[0]))
            running += [start_client(uri, client) for client, uri in enumerate(plutos.uris[1:])]
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
    return application


def check_votes_and_corrections(application):
    settled = sorted(application.wrong)[-SETTLED_ROUNDS:]
    # Both clients vote alike. Without fading their tones cancel in at most a quarter of all pairs of QPSK symbols, and
    # of these votes every other one is wrong; four standard errors above that.
    most = 1 / 8 + 4 * np.sqrt(1 / 8 * 7 / 8 / VOTES)
    assert max(application.wrong[number] for number in settled) < most
    assert np.mean([application.wrong[number] for number in settled]) < 1 / 8
    for client in range(CLIENTS):
        told = [application.corrections[number][client] for number in settled]
        assert np.ptp(told) < 0.2  # the crystals are constant, and so is what they need


@pytest.mark.slow
def test_three_programs_from_companion_find_each_other_and_vote(tmp_path):
    programs = {name: compile_flow(FLOWS / f"oac_{name}_pluto.grc", tmp_path) for name in ("client", "server")}
    server = {name: free_address() for name in ("status", "orders", "next", "soft_votes")}
    payloads = [free_address() for _ in range(CLIENTS)]
    common = {"frequency_hz": 2.45e9, "sample_rate_hz": 1e6, "votes": VOTES, "clients": CLIENTS}

    def start_server(uri):
        endpoints = {f"{name}_at": address for name, address in server.items()}
        return start(programs["server"], tmp_path, uri=uri, **endpoints, **common)

    def start_client(uri, client):
        links = {"orders_from": server["orders"], "status_to": server["status"], "payload_at": payloads[client]}
        return start(programs["client"], tmp_path, uri=uri, client=client, **links, **common)

    check_votes_and_corrections(play(tmp_path, start_server, start_client, server, payloads))


@pytest.mark.slow
def test_three_processes_of_fl_app_radio_find_each_other_and_vote(tmp_path):
    port = int(free_address().rpartition(":")[2]) % 40_000 + 20_000
    server = bench_endpoints("127.0.0.1", port, None)
    payloads = [bench_endpoints("127.0.0.1", port, client)["payload"] for client in range(CLIENTS)]

    def start_radio(uri, *role):
        words = ("--uri", uri, *role, "--clients", CLIENTS, "--frequency", 2.45e9, "--rate", 1e6)
        words += ("--votes", VOTES, "--port", port)
        command = [sys.executable, "-c", "from fl_app.cli import app; app()", "radio", *map(str, words)]
        log = (tmp_path / f"radio{role}.log").open("w")
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def start_client(uri, client):
        return start_radio(uri, "--client", client)

    check_votes_and_corrections(play(tmp_path, start_radio, start_client, server, payloads))
