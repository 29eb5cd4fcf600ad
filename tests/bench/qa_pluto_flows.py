# SPDX-License-Identifier: GPL-3.0-or-later
"""The flowgraphs for Plutos as users run them: three programs on three virtual radios, and an application.

All ways between the radios fade (Rayleigh, many echoes), so the share of wrong votes has a closed form. Its SNR is the
air's own, where amplitude, gains and noise are known. What a flowgraph measures of a round is that round's fading.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pmt
import pytest
import zmq

from fl_app.air.votes import vote_error_rate
from fl_app.config import load_settings
from oac_blocks.bench.flows.endpoints import bench_endpoints
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp.bounds import mv_error_probability
from oac_blocks.radio.virtual.air.air_settings import REFERENCE_RMS_DB, spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.blocks.companion.companion_core import ROOT
from tests.support.polling import DEADLINE_SECONDS
from tests.support.ports import free_address, free_ports

CLIENTS, VOTES = 2, 19_200
AMPLITUDE = 0.1  # of a client's subcarrier, in both programs
SNR_DB = 10.0  # of a client's subcarrier at gain 0 dB, in the mean over the fading
COHERENCE_SAMPLES = 16_000  # 50 symbols: a burst of 204 sees five draws, and a symbol sees hardly any change
LIMIT_SECONDS = 2 * DEADLINE_SECONDS
FORM_64 = {"sample_rate_hz": 1e6, "fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4}


class Application:
    """Gives each client votes of its own whenever a round is called, and keeps what comes of it.

    What clients and server say to each other passes through it: that tells who has really sent its votes.
    ``server`` is where the server's flowgraph listens, ``clients`` where those of the clients think that it does.
    """

    def __init__(self, server, clients, payloads_at):
        self._context = zmq.Context()
        self._called, self._soft_votes, self._orders = (
            self._subscriber(server[name]) for name in ("next", "soft_votes", "orders")
        )
        self._payloads = [self._pusher(address) for address in payloads_at]
        self._status, self._status_on = self._context.socket(zmq.PULL), self._pusher(server["status"])
        self._status.bind(clients["status"])
        self._orders_on = self._context.socket(zmq.PUB)
        self._orders_on.bind(clients["orders"])
        self._rng = np.random.default_rng(1)
        self._votes = {}  # by rounds
        self._sent = {}  # rounds, and what each client has sent
        self._soft = {}
        self.orders = {}  # rounds, and what each client was told

    def _subscriber(self, address):
        subscriber = self._context.socket(zmq.SUB)
        subscriber.connect(address)
        subscriber.subscribe(b"")
        return subscriber

    def _pusher(self, address):
        pusher = self._context.socket(zmq.PUSH)
        pusher.connect(address)
        return pusher

    def serve(self, milliseconds):
        poller = zmq.Poller()
        for one in (self._called, self._soft_votes, self._orders, self._status):
            poller.register(one, zmq.POLLIN)
        for one, _ in poller.poll(milliseconds):
            raw = one.recv()
            message = pmt.deserialize_str(raw)
            if one is self._soft_votes:
                heard = pdus.read(message, np.float32)
                self._soft[pmt.to_long(heard.metadata["round"])] = heard.data
                continue
            notice = pdus.read_notice(message)
            if one is self._called:
                self._vote(notice["round"])
            elif one is self._orders:
                self._orders_on.send(raw)
                self.orders.setdefault(notice["round"], {})[notice["client"]] = notice
            else:
                self._status_on.send(raw)
                if notice["event"] == "answered":
                    self._sent.setdefault(notice["round"], {})[notice["client"]] = notice["sent"]

    def _vote(self, number):
        self._votes[number] = self._rng.integers(-1, 2, (CLIENTS, VOTES)).astype(np.int8)
        for pusher, votes in zip(self._payloads, self._votes[number], strict=True):
            pusher.send(pmt.serialize_str(pdus.make(votes, {"round": number})))

    @property
    def rounds(self):
        """In which all clients have sent their votes, and these were heard."""
        all_sent = dict.fromkeys(range(CLIENTS), "payload")
        return [number for number in sorted(self._soft) if self._sent.get(number) == all_sent]

    def error_rate(self, number):
        """Of a round's votes with a majority, the share that was decided wrongly, and its closed form."""
        votes = self._votes[number]
        errors, compared = vote_error_rate(votes, self._soft[number])
        majority = votes.sum(axis=0)
        gains_db = [self.orders[number][client]["gain_db"] for client in range(CLIENTS)]
        snr = 10 ** ((SNR_DB + np.array(gains_db)) / 10)
        # Two clients that agree, or one alone, are one client with the sum of their powers, whatever each one's is.
        decided = np.abs(votes[:, majority != 0])
        return errors / compared, np.mean(mv_error_probability(1, 0, snr @ decided))

    def close(self):
        self._context.destroy(linger=0)


def unused():
    """Addresses of the server's other sockets: two programs with the default ones would meet."""
    return {name: free_address() for name in ("report", "ballot")}


def start(program, home, **options):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    log = (home / f"{program.stem}-{options.get('client', '')}.log").open("w")
    return subprocess.Popen([sys.executable, program, *arguments], cwd=home, env=environment, stdout=log, stderr=log)


def play(tmp_path, rounds, rate_hz, start_server, start_client, *endpoints, coherence_samples=COHERENCE_SAMPLES):
    """So many rounds of votes; the programs are started by what is given, on virtual radios in lock step."""
    running = []
    # In lock step time waits for all radios, so a busy machine changes nothing. The air's SNR is that of a signal of
    # so many dB at the same gain as here.
    snr_db = SNR_DB + REFERENCE_RMS_DB - 20 * np.log10(AMPLITUDE)
    fading = {"channel": "etu", "fading": "rayleigh", "coherence_seconds": coherence_samples / rate_hz}
    air = spread(1 + CLIENTS, 1, ppm=10.0, snr_db=snr_db, snr_bandwidth_hz=rate_hz, **fading)
    application = Application(*endpoints)
    with VirtualPlutos(air, lock_step=True) as plutos:
        try:
            (tmp_path / "uris.json").write_text(json.dumps(plutos.uris))
            running.append(start_server(plutos.uris[0]))
            running += [start_client(uri, client) for client, uri in enumerate(plutos.uris[1:])]
            deadline = time.monotonic() + LIMIT_SECONDS
            while len(application.rounds) < rounds:
                application.serve(100)
                logs = "\n".join(file.read_text() for file in tmp_path.glob("*.log"))
                assert time.monotonic() < deadline, f"{len(application.rounds)} rounds in time\n{logs}"
                assert all(process.poll() is None for process in running), logs
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(DEADLINE_SECONDS)
            application.close()
    return application


def check_votes_and_corrections(application, rate_hz, standard_errors):
    rates = np.array([application.error_rate(number) for number in application.rounds])
    # Votes of a round share its fading: what they scatter by is seen between rounds.
    off = rates[:, 0] - rates[:, 1]
    sigma = off.std(ddof=1) / np.sqrt(len(off))
    print(f"{len(off)} rounds: wrong {rates[:, 0].mean():.4f}, closed form {rates[:, 1].mean():.4f} +- {sigma:.4f}")
    assert sigma < 0.15 * rates[:, 1].mean()  # or the next line would say nothing
    assert abs(off.mean()) < standard_errors * sigma
    for client in range(CLIENTS):
        told = [application.orders[number][client]["correction_samples"] for number in application.rounds]
        assert np.ptp(told) < 5e-6 * rate_hz  # the strongest path is one of many, all within 5 us


def check_programs_from_companion(tmp_path, compiled, rounds, standard_errors, rate_hz=2.5e6):
    programs = {name: compiled(f"oac_{name}_pluto") for name in ("client", "server")}
    server = {name: free_address() for name in ("status", "orders", "next", "soft_votes")}
    clients = {name: free_address() for name in ("status", "orders")}
    payloads = [free_address() for _ in range(CLIENTS)]
    common = {"frequency_hz": 2.45e9, "sample_rate_hz": rate_hz, "votes": VOTES, "clients": CLIENTS}

    def start_server(uri):
        at = {f"{name}_at": address for name, address in {**server, **unused()}.items()}
        return start(programs["server"], tmp_path, uri=uri, deadline_seconds=LIMIT_SECONDS, **at, **common)

    def start_client(uri, client):
        links = {"orders_from": clients["orders"], "status_to": clients["status"], "payload_at": payloads[client]}
        return start(programs["client"], tmp_path, uri=uri, client=client, **links, **common)

    application = play(tmp_path, rounds, rate_hz, start_server, start_client, server, clients, payloads)
    check_votes_and_corrections(application, rate_hz, standard_errors)


@pytest.mark.early
def test_programs_from_companion_take_radios_and_another_waveform_from_a_config(tmp_path, compiled):
    """64 points at 1 Msps, and nothing of it on the command line: the file is the one that `fl_app` takes."""
    programs = {name: compiled(f"oac_{name}_pluto") for name in ("client", "server")}
    server = {name: free_address() for name in ("status", "orders", "next", "soft_votes")}
    clients = {name: free_address() for name in ("status", "orders")}
    payloads = [free_address() for _ in range(CLIENTS)]
    config, rate_hz = tmp_path / "bench.toml", 1e6
    common = {"config": config, "votes": VOTES}

    def start_server(_uri):
        own, *others = json.loads((tmp_path / "uris.json").read_text())
        waveform = [f"air.{name}={value}" for name, value in FORM_64.items()]
        radios = [f'radios.server="{own}"', f"radios.clients={others}", "radios.tx_gain_db=-10"]
        named = ["air.name=pluto", f"clients.n={CLIENTS}", "radios.frequency_hz=2.45e9", *radios]
        config.write_text(load_settings(None, [*named, *waveform]).toml())
        at = {f"{name}_at": address for name, address in {**server, **unused()}.items()}
        return start(programs["server"], tmp_path, deadline_seconds=LIMIT_SECONDS, **at, **common)

    def start_client(_uri, client):
        links = {"orders_from": clients["orders"], "status_to": clients["status"], "payload_at": payloads[client]}
        return start(programs["client"], tmp_path, client=client, **links, **common)

    application = play(
        tmp_path, 8, rate_hz, start_server, start_client, server, clients, payloads, coherence_samples=4000
    )
    check_votes_and_corrections(application, rate_hz, standard_errors=4)


@pytest.mark.early
def test_votes_through_three_programs_from_companion_are_wrong_as_often_as_the_closed_form_says(tmp_path, compiled):
    # Of so few rounds the standard error itself is not well known.
    check_programs_from_companion(tmp_path, compiled, rounds=12, standard_errors=4)


@pytest.mark.slow
def test_many_votes_through_three_programs_from_companion(tmp_path, compiled):
    check_programs_from_companion(tmp_path, compiled, rounds=60, standard_errors=3)


@pytest.mark.slow
def test_many_votes_through_three_processes_of_fl_app_radio(tmp_path):
    rate_hz = 1e6  # slow, for the sake of the server's deadline
    ports = [free_ports(6 + CLIENTS) for _ in range(2)]
    server, clients = (bench_endpoints("127.0.0.1", port, None) for port in ports)
    payloads = [bench_endpoints("127.0.0.1", ports[1], client)["payload"] for client in range(CLIENTS)]

    def start_radio(uri, port, *role):
        words = ("--uri", uri, *role, "--clients", CLIENTS, "--frequency", 2.45e9, "--rate", rate_hz)
        words += ("--votes", VOTES, "--port", port)
        command = [sys.executable, "-c", "from fl_app.cli.app import app; app()", "radio", *map(str, words)]
        log = (tmp_path / f"radio{role}.log").open("w")
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def start_server(uri):
        return start_radio(uri, ports[0])

    def start_client(uri, client):
        return start_radio(uri, ports[1], "--client", client)

    application = play(tmp_path, 60, rate_hz, start_server, start_client, server, clients, payloads)
    check_votes_and_corrections(application, rate_hz, 3)
