# SPDX-License-Identifier: GPL-3.0-or-later
"""The flowgraphs for Plutos with another waveform and clients of unequal power, as processes on virtual radios.

Short buffers and slots make the rounds short; in lock-step nothing else depends on their length.
"""

import json
import subprocess
import sys
import time

import numpy as np
import pmt
import pytest
import zmq

from oac_blocks.bench.flows.endpoints import WAIT_FOR_RADIO
from oac_blocks.blocks.support import pdus
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.support.ports import free_address
from tests.support.radios import assert_as_found

CLIENTS, VOTES, ROUNDS = 2, 2400, 14
ATTENUATIONS_DB = (18.5, 10.0)
LIMIT_SECONDS = 240.0
WAVEFORM = {"sample_rate_hz": 2.5e6, "fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4}
SHORT = {"buffer_samples": 8192, "turnaround_samples": 65_536, "answer_samples": 131_072, "slot_samples": 131_072}


class Flowgraphs:
    """Processes, which are started again when they end: libiio gives up when a radio in lock-step waits for 5 s."""

    def __init__(self, folder):
        self._folder, self._commands, self._running = folder, [], []

    def start(self, role, settings, endpoints):
        words = [str(role), json.dumps({**WAVEFORM, **SHORT, **settings}), json.dumps(endpoints), WAIT_FOR_RADIO]
        self._commands.append([sys.executable, "-m", "oac_blocks.bench.flows.pluto_service", *words])
        self._running.append(self._start(len(self._running)))

    def _start(self, number):
        log = (self._folder / f"{number}.log").open("a")
        return subprocess.Popen(self._commands[number], stdout=log, stderr=log)

    def look_after(self):
        self._running = [
            self._start(number) if process.poll() is not None else process
            for number, process in enumerate(self._running)
        ]

    @property
    def logs(self):
        return "\n".join(file.read_text() for file in self._folder.glob("*.log"))

    def end(self):
        for process in self._running:
            process.terminate()
        return [process.wait(60) for process in self._running]


def subscriber(context, address):
    made = context.socket(zmq.SUB)
    made.connect(address)
    made.subscribe(b"")
    return made


def test_unequal_clients_of_a_64_point_waveform_are_made_equal_and_their_votes_are_heard(tmp_path):
    server = {name: free_address() for name in ("status", "orders", "next", "soft_votes", "ballot", "report")}
    payloads = [free_address() for _ in range(CLIENTS)]
    context = zmq.Context()
    called, decided, reported = (subscriber(context, server[name]) for name in ("next", "soft_votes", "report"))
    pushers = [context.socket(zmq.PUSH) for _ in payloads]
    for pusher, address in zip(pushers, payloads, strict=True):
        pusher.connect(address)
    rng, votes, wrong, reports = np.random.default_rng(1), {}, [], []
    flowgraphs = Flowgraphs(tmp_path)
    air = spread(1 + CLIENTS, 1, ppm=10.0, snr_db=35.0)
    common = {"frequency_hz": 2.45e9, "tx_gain_db": -10.0, "clients": CLIENTS, "votes": VOTES, "arm_seconds": 60.0}
    with VirtualPlutos(air, lock_step=True) as plutos:
        try:
            flowgraphs.start("server", {**common, "uri": plutos.uris[0]}, server)
            for client, uri in enumerate(plutos.uris[1:]):
                links = {"status": server["status"], "orders": server["orders"], "payload": payloads[client]}
                own = {**common, "uri": uri, "tx_gain_db": -ATTENUATIONS_DB[client]}
                flowgraphs.start(client, own, links)
            deadline = time.monotonic() + LIMIT_SECONDS
            poller = zmq.Poller()
            for one in (called, decided, reported):
                poller.register(one, zmq.POLLIN)
            while len(wrong) < ROUNDS:
                flowgraphs.look_after()
                assert time.monotonic() < deadline, f"{len(wrong)} rounds in time\n{flowgraphs.logs}"
                for one, _ in poller.poll(100):
                    message = pmt.deserialize_str(one.recv())
                    about = pdus.read_notice(message)
                    if one is called:
                        own = rng.choice(np.array([-1, 1], np.int8), (CLIENTS, VOTES))
                        votes[about["round"]] = own
                        for pusher, ballot in zip(pushers, own, strict=True):
                            pusher.send(pmt.serialize_str(pdus.make(ballot, {"round": about["round"]})))
                    elif one is reported:
                        reports.append(about)
                    elif about["round"] in votes and about["voters"] == CLIENTS:
                        assert {name: about[name] for name in WAVEFORM} == WAVEFORM
                        majority = votes[about["round"]].sum(axis=0)
                        heard = np.sign(pdus.read(message, np.float32).data)
                        wrong.append(np.mean(heard[majority != 0] != np.sign(majority[majority != 0])))
        finally:
            ends = flowgraphs.end()
            context.destroy(linger=0)
        assert ends == [0] * (1 + CLIENTS)
        assert_as_found(plutos)
    # Without fading the tones of two clients that agree cancel in at most a quarter of all pairs of QPSK symbols, and
    # of these votes every other one is wrong.
    assert np.mean(wrong) < 1 / 8
    assert all({name: report[name] for name in WAVEFORM} == WAVEFORM for report in reports)
    apart = [np.diff(report["power_db"])[0] for report in reports if np.isfinite(report["power_db"]).all()]
    first, last = apart[0], apart[-1]
    assert first == pytest.approx(ATTENUATIONS_DB[0] - ATTENUATIONS_DB[1], abs=0.5)
    assert abs(last) < 1.0
