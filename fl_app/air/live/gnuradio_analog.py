# SPDX-License-Identifier: GPL-3.0-or-later
"""Amplitudes through a GNU Radio flowgraph: the analog loopback runs as a process, entries go and come by ZMQ.

A burst is a round of the flowgraph: it sends its pilot, and the clients their entries at once, when all have come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zmq

from fl_app.air.base import Uplink
from fl_app.air.bursts import air_time
from fl_app.air.live.gnuradio_process import FlowgraphAir, FlowgraphError, FlowgraphProcess
from fl_app.air.live.loopback_settings import analog_loopback_settings, analog_plan
from fl_app.air.pilots import pilot_noise
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.clipping import clip_entries
from fl_app.air.simulation.front_end import CONVERTER_HEADROOM, expected_power
from fl_app.air.simulation.gains import mean_gain
from fl_app.air.simulation.levels import analog_levels
from oac_blocks.bench.flows.analog_messages import AnalogEndpoints, Go, Payload, read_heard
from oac_blocks.blocks.support.pmt_bytes import deserialise, serialise
from oac_blocks.rounds.messages import Call

_RUN = 0  # the flowgraph lives and dies with this air, so there is one run of it


class AnalogLoopback(FlowgraphProcess):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__("analog_service", settings)
        endpoints = AnalogEndpoints.in_folder(self.folder)
        self._clients: int = settings["clients"]
        self._go, self._payload = self.socket(zmq.PUSH, endpoints.go), self.socket(zmq.PUSH, endpoints.payload)
        self._entries = self.socket(zmq.PULL, endpoints.entries)
        self._rounds = 0

    def add_up(
        self, entries: npt.NDArray[np.float32], clients: npt.NDArray[np.int64], **levels: Any
    ) -> npt.NDArray[np.float32]:
        """One burst: the entries (participants, k) of these clients to the server's estimate of their mean (k,)."""
        call = Call(self._rounds, _RUN)
        self._rounds += 1
        takes_part = tuple(client in clients for client in range(self._clients))
        self._go.send(serialise(Go(call, entries.shape[1], takes_part, **levels).message()))
        for client, row in zip(clients.tolist(), entries, strict=True):
            self._payload.send(serialise(Payload(call, client, row).message()))
        message = self.receive(self._entries)
        try:
            heard = read_heard(deserialise(message))
        except ValueError as error:
            raise FlowgraphError(f"the flowgraph sent what cannot be read: {error}") from None
        if heard.call != call or len(heard.entries) != entries.shape[1]:
            raise FlowgraphError(f"the flowgraph answered {heard.call} to {call}, with {len(heard.entries)} entries")
        return heard.entries


class AnalogGnuradioAir(FlowgraphAir[AnalogLoopback]):
    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        super().__init__(settings, n_clients, seed)
        self.mean_gain = mean_gain(settings, pilot_noise=pilot_noise(settings))

    def make_flowgraph(self) -> AnalogLoopback:
        return AnalogLoopback(analog_loopback_settings(self.settings, self.n_clients, self.seed, self.mean_gain))

    def send(self, flowgraph: AnalogLoopback, values: npt.NDArray[Any], clients: npt.NDArray[np.int64]) -> Uplink:
        settings, participants = self.settings, len(clients)
        levels = analog_levels(settings, values, self.mean_gain)
        expected = expected_power(participants, settings) + levels.sample_noise
        received = np.empty(values.shape[1], np.float32)
        bursts = analog_plan(values.shape[1], settings)
        for burst in bursts:
            received[burst.entries] = flowgraph.add_up(
                values[:, burst.entries],
                clients,
                scale=levels.scale,
                snr_db=levels.snr_db,
                adc_full_scale=CONVERTER_HEADROOM * float(np.sqrt(expected / 2)),
            )
        return Uplink(clip_entries(received, settings.clip_level), clients, *air_time(bursts))
