# SPDX-License-Identifier: GPL-3.0-or-later
"""The air as a GNU Radio flowgraph: the loopback runs as a process of its own, votes and soft votes go by ZMQ.

Rounds of the flowgraph are not rounds of the training: it has rounds of calibration in between, and a long payload
takes several. The flowgraph asks for the votes of its round, and this module answers with the next burst.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zmq

from fl_app.air import flow_messages
from fl_app.air.base import Mode, Uplink
from fl_app.air.flow_bursts import ballots_of_all, uplink_in_bursts
from fl_app.air.loopback_settings import loopback_settings
from fl_app.air.payload import check_payload
from fl_app.air.settings import AirSettings
from oac_blocks.dsp.checks import integer, require
from oac_blocks.flows.endpoints import Endpoints, flowgraph_environment

MAX_CLIENTS = 63
_START_SECONDS = 60.0
_ROUND_SECONDS = 120.0
_LOOK_MILLISECONDS = 200


class FlowgraphError(RuntimeError):
    """What happened to the flowgraph, in a sentence."""


class GnuradioAir:
    """One-bit only. A resumed run starts the flowgraph, clocks and calibration included, anew."""

    mode: Mode = "onebit"

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self.settings = settings
        self.n_clients = integer("n_clients", n_clients, 1, MAX_CLIENTS)
        self.seed = integer("seed", seed, 0)
        self._flowgraph: _Flowgraph | None = None

    @property
    def process_id(self) -> int | None:
        """Of the flowgraph; None before the first round."""
        return self._flowgraph.process_id if self._flowgraph else None

    def uplink(self, payload: npt.NDArray[Any], clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, numbers = check_payload(payload, clients, t, self.mode, self.n_clients)
        if self._flowgraph is None:
            self._flowgraph = _Flowgraph(loopback_settings(self.settings, self.n_clients, self.seed))
        flowgraph, ballots = self._flowgraph, ballots_of_all(values, numbers, self.n_clients)
        return uplink_in_bursts(
            values.shape[1], self.settings, lambda first, stop: flowgraph.vote(ballots[:, first:stop])
        )

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        require(state == {}, "state", state, "empty: a flowgraph starts anew")

    def close(self) -> None:
        if self._flowgraph is not None:
            self._flowgraph.close()
            self._flowgraph = None


class _Flowgraph:
    """The process, its sockets, and one conversation: it asks for votes, it gets them, it tells what it decided."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._clients = settings["clients"]
        self._folder = tempfile.TemporaryDirectory(prefix="gr-oac-")  # readable by this user alone
        endpoints = Endpoints.in_folder(Path(self._folder.name))
        command = [sys.executable, "-m", "oac_blocks.flows.loopback_service", self._folder.name, json.dumps(settings)]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=flowgraph_environment(),
            process_group=0,  # Ctrl-C is for the training, which ends its round and then the flowgraph
        )
        self._context = zmq.Context()
        self._close = weakref.finalize(self, _clean_up, self._process, self._context, self._folder)
        self._await_start()
        self._payload = self._socket(zmq.PUSH, endpoints.payload)
        self._next = self._socket(zmq.PULL, endpoints.next)
        self._soft_votes = self._socket(zmq.PULL, endpoints.soft_votes)
        self._report = self._socket(zmq.PULL, endpoints.report)
        self._states = "nothing was heard yet"

    @property
    def process_id(self) -> int:
        return self._process.pid

    def _socket(self, kind: int, endpoint: str) -> Any:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.connect(endpoint)
        return socket

    def _await_start(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.strip() != "ready":
            code = self._process.wait(_START_SECONDS)
            raise FlowgraphError(f"the flowgraph did not start (exit status {code}); what it said is above")

    def vote(self, ballots: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.float32], float]:
        """One burst: all clients' votes (clients, k) to soft votes (k,) and the SNR in dB."""
        try:
            call = flow_messages.read_call(self._receive(self._next))
            for client, votes in enumerate(ballots):
                self._payload.send(flow_messages.payload(call, client, votes))
            while True:
                decision = flow_messages.read_decision(self._receive(self._soft_votes))
                if decision.call == call:
                    return decision.soft_votes, decision.snr_db
        except ValueError as error:
            raise FlowgraphError(f"the flowgraph sent what cannot be read: {error}") from None

    def _receive(self, socket: Any) -> bytes:
        deadline = time.monotonic() + _ROUND_SECONDS
        while not socket.poll(_LOOK_MILLISECONDS):
            self._note_states()
            if self._process.poll() is not None:
                raise FlowgraphError(
                    f"the flowgraph ended (exit status {self._process.returncode}); a resumed run starts a new one"
                )
            if time.monotonic() > deadline:
                raise FlowgraphError(
                    f"the flowgraph gave no round within {_ROUND_SECONDS:.0f} s; clients: {self._states}"
                )
        self._note_states()
        message: bytes = socket.recv()
        return message

    def _note_states(self) -> None:
        while self._report.poll(0):
            self._states = ", ".join(flow_messages.read_states(self._report.recv()))

    def close(self) -> None:
        self._close()


def _clean_up(process: subprocess.Popen[str], context: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    context.destroy(linger=0)
    folder.cleanup()
