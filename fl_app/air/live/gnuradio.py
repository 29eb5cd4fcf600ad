# SPDX-License-Identifier: GPL-3.0-or-later
"""One bit through a GNU Radio flowgraph: the loopback runs as a process, votes and soft votes go by ZMQ.

Rounds of the flowgraph are not rounds of the training: it has rounds of calibration in between, and a long payload
takes several. The flowgraph asks for the votes of its round, and this module answers with the next burst.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zmq

from fl_app.air.base import Uplink
from fl_app.air.live import flow_messages
from fl_app.air.live.flow_bursts import CarriedBurst, ballots_of_all, uplink_in_bursts
from fl_app.air.live.gnuradio_process import FlowgraphAir, FlowgraphError, FlowgraphProcess
from fl_app.air.live.loopback_settings import loopback_settings
from fl_app.air.observed import Observation
from fl_app.air.scales import common_scale
from oac_blocks.bench.flows.endpoints import Endpoints


class VoteLoopback(FlowgraphProcess):
    """One conversation: it asks for votes, it gets them, it tells what it decided."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__("loopback_service", settings)
        endpoints = Endpoints.in_folder(self.folder)
        self._payload = self.socket(zmq.PUSH, endpoints.payload)
        self._next = self.socket(zmq.PULL, endpoints.next)
        self._soft_votes = self.socket(zmq.PULL, endpoints.soft_votes)
        self._report = self.socket(zmq.PULL, endpoints.report)
        self.report: flow_messages.Report | None = None  # the calibrator's last one

    def vote(self, ballots: npt.NDArray[Any]) -> CarriedBurst:
        """Send one burst: the votes of all clients, (clients, k)."""
        try:
            call, _ = flow_messages.read_call(self.receive(self._next))
            for client, votes in enumerate(ballots):
                self._payload.send(flow_messages.payload(call, client, votes))
            while True:
                decision = flow_messages.read_decision(self.receive(self._soft_votes))
                if decision.call == call:
                    return CarriedBurst(decision.soft_votes, decision.snr_db, decision.heard)
        except ValueError as error:
            raise FlowgraphError(f"the flowgraph sent what cannot be read: {error}") from None

    def look(self) -> None:
        while self._report.poll(0):
            self.report = flow_messages.read_report(self._report.recv())

    def about(self) -> str:
        return f"; clients: {'nothing was heard yet' if self.report is None else ', '.join(self.report.states)}"


class GnuradioAir(FlowgraphAir[VoteLoopback]):
    """A resumed run starts the flowgraph, clocks and calibration included, anew."""

    def make_flowgraph(self) -> VoteLoopback:
        return VoteLoopback(loopback_settings(self.settings, self.n_clients, self.seed))

    def send(self, flowgraph: VoteLoopback, values: npt.NDArray[Any], clients: npt.NDArray[np.int64]) -> Uplink:
        scale = common_scale(self.scheme, values)
        ballots = ballots_of_all(self.scheme.signed_energies(values, scale), clients, self.n_clients)
        send = lambda first, stop: flowgraph.vote(ballots[:, first:stop])  # noqa: E731
        return uplink_in_bursts(values.shape[1], clients, self.settings, send, scale)

    def observe(self) -> Observation | None:
        report = self._flowgraph.report if self._flowgraph else None
        return flow_messages.observation_of(report, self.settings.sample_rate_hz)
