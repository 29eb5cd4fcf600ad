# SPDX-License-Identifier: GPL-3.0-or-later
"""One radio of the bench: a Pluto that is the server, or one of the clients, without a screen.

These are ``oac_server_pluto.grc`` and ``oac_client_pluto.grc``. The loop closes between the flowgraphs: the server's
sends orders to all clients' (ZMQ PUB), and they send their status back (PUSH). An application gives votes to each
client's flowgraph and takes soft votes from the server's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from gnuradio import blocks, gr, iio, zeromq

from oac_blocks.bench.flows.pluto_settings import PlutoSettings as PlutoSettings
from oac_blocks.bench.flows.service import NoRadioError
from oac_blocks.blocks.client_transceiver import client_transceiver
from oac_blocks.blocks.drift_calibrator import drift_calibrator
from oac_blocks.blocks.round_control import round_control
from oac_blocks.blocks.server_receiver import server_receiver
from oac_blocks.blocks.trigger_source import trigger_source
from oac_blocks.radio import pluto_state
from oac_blocks.radio.base import RadioRangeError
from oac_blocks.record.recorder import Recorder

_POLL_MILLISECONDS = 10
_PATIENCE_BUFFERS = 64  # buffers within which the server's own receiver must hear a trigger that was ordered
_UNUSED_TAG = ""


class PlutoBlocks:
    """A Pluto's receiver and transmitter as blocks, set alike.

    What other programs left on the radio is undone first, and ``leave`` sets it back once the flowgraph has stopped.
    """

    def __init__(self, settings: PlutoSettings) -> None:
        self._uri = settings.uri
        frequency = settings.frequency_hz
        try:
            pluto_state.check_tuning(settings.uri, rx_lo_hz=frequency, tx_lo_hz=frequency)
            self._found = pluto_state.make_ready(settings.uri, frequency)
            self._open(settings)
        except RadioRangeError as error:  # waiting for the radio does not change what its chip can do
            raise ValueError(str(error).replace("rx_lo_hz", "frequency_hz")) from None
        except RuntimeError as error:  # RadioError is one of them
            raise NoRadioError(f"no radio answers at {settings.uri} ({error})") from None

    def _open(self, settings: PlutoSettings) -> None:
        rate, frequency = round(settings.sample_rate_hz), round(settings.frequency_hz)
        self.receiver = iio.fmcomms2_source_fc32(settings.uri, [True, True], settings.buffer_samples)
        self.receiver.set_len_tag_key(_UNUSED_TAG)
        self.receiver.set_frequency(frequency)
        self.receiver.set_samplerate(rate)
        self.receiver.set_gain_mode(0, "manual")  # before the gain, which is ignored otherwise
        self.receiver.set_gain(0, settings.rx_gain_db)
        self.receiver.set_quadrature(True)
        self.receiver.set_rfdc(True)
        self.receiver.set_bbdc(True)
        self.receiver.set_filter_params("Auto", "", 0, 0)
        self.transmitter = iio.fmcomms2_sink_fc32(settings.uri, [True, True], settings.buffer_samples, False)
        self.transmitter.set_len_tag_key(_UNUSED_TAG)
        self.transmitter.set_bandwidth(rate)
        self.transmitter.set_frequency(frequency)
        self.transmitter.set_samplerate(rate)
        self.transmitter.set_attenuation(0, -settings.tx_gain_db)
        self.transmitter.set_filter_params("Auto", "", 0, 0)

    def leave(self) -> list[str]:
        """Leave the radio as it was found, as far as it lets us, and return what did not work."""
        return pluto_state.restore(self._uri, self._found)


@dataclass(frozen=True)
class ServerEndpoints:
    """Where the server's flowgraph listens: ``tcp://*:5560`` for all interfaces, ``tcp://127.0.0.1:*`` for one."""

    status: str  # clients' flowgraphs push here
    orders: str  # and subscribe here
    next: str  # applications subscribe here: the round that votes are wanted for
    soft_votes: str  # and here
    ballot: str  # and push here: how many votes the round has, and who takes part
    report: str  # what the calibrator knows of each client, for applications that subscribe


class pluto_server(gr.top_block):  # noqa: N801 (GNU Radio's way of naming)
    recorder: Recorder | None = None

    def __init__(self, settings: PlutoSettings, endpoints: ServerEndpoints) -> None:
        gr.top_block.__init__(self, "OAC server on a Pluto", catch_exceptions=False)
        self.radio = PlutoBlocks(settings)
        self.trigger = trigger_source(
            "message",
            settings.answer_samples,
            settings.trigger_amplitude,
            chunk_samples=settings.buffer_samples,
        )
        self.receiver = server_receiver(
            settings.clients,
            settings.votes,
            settings.repeats,
            settings.groups,
            answer_samples=settings.answer_samples,
            slot_samples=settings.slot_samples,
            chunk_samples=settings.buffer_samples,
            patience_samples=_PATIENCE_BUFFERS * settings.buffer_samples,
            scheme=settings.scheme,
            **settings.numerology(),
        )
        self.calibrator = drift_calibrator(
            settings.clients,
            turnaround_samples=settings.answer_samples,
            sample_rate_hz=settings.sample_rate_hz,
            slot_samples=settings.slot_samples,
            power_control=True,
        )
        self.control = round_control(
            settings.clients, deadline_seconds=settings.deadline_seconds, arm_seconds=settings.arm_seconds
        )
        self.status = zeromq.pull_msg_source(endpoints.status, _POLL_MILLISECONDS, True)
        self.orders = zeromq.pub_msg_sink(endpoints.orders, _POLL_MILLISECONDS, True)
        self.next = zeromq.pub_msg_sink(endpoints.next, _POLL_MILLISECONDS, True)
        # PUB and not PUSH: a socket that nobody pulls from would keep the flowgraph from stopping.
        self.soft_votes = zeromq.pub_msg_sink(endpoints.soft_votes, _POLL_MILLISECONDS, True)
        self.report = zeromq.pub_msg_sink(endpoints.report, _POLL_MILLISECONDS, True)
        self.ballot = zeromq.pull_msg_source(endpoints.ballot, _POLL_MILLISECONDS, True)
        self.connect(self.trigger, self.radio.transmitter)
        self.connect(self.radio.receiver, self.receiver)
        for source, target in self._messages():
            self.msg_connect(source, target)

    def record(self, recorder: Recorder) -> None:
        """Record the rounds that the server receives. To be called before the flowgraph is started."""
        self.recorder = recorder
        self.receiver.record(recorder)

    @property
    def streams_ended(self) -> bool:
        """Has either stream ended? Sockets would keep the flowgraph alive without them."""
        return self.trigger.ended or self.receiver.ended

    def _messages(self) -> list[tuple[Any, Any]]:
        return [
            ((self.status, "out"), (self.calibrator, "status")),
            ((self.status, "out"), (self.control, "status")),
            ((self.calibrator, "orders"), (self.orders, "in")),
            ((self.ballot, "out"), (self.orders, "in")),
            ((self.ballot, "out"), (self.control, "ballot")),
            ((self.calibrator, "report"), (self.report, "in")),
            ((self.calibrator, "plan"), (self.control, "plan")),
            ((self.control, "next"), (self.next, "in")),
            ((self.control, "expect"), (self.receiver, "expect")),
            ((self.control, "fire"), (self.trigger, "fire")),
            ((self.control, "missed"), (self.calibrator, "arrivals")),
            ((self.receiver, "arrivals"), (self.calibrator, "arrivals")),
            ((self.receiver, "soft_votes"), (self.soft_votes, "in")),
        ]


class pluto_client(gr.top_block):  # noqa: N801 (GNU Radio's way of naming)
    """``status`` and ``orders`` are the server's endpoints, ``payload`` is where an application pushes its votes."""

    def __init__(self, settings: PlutoSettings, client: int, status: str, orders: str, payload: str) -> None:
        gr.top_block.__init__(self, f"OAC client {client} on a Pluto", catch_exceptions=False)
        self.radio = PlutoBlocks(settings)
        self.client = client_transceiver(
            client,
            settings.clients,
            settings.turnaround_samples,
            settings.votes,
            settings.repeats,
            settings.groups,
            amplitude=settings.amplitude,
            slot_samples=settings.slot_samples,
            max_cfo_rad=settings.max_cfo_rad,
            first_epoch=int(time.time()),
            chunk_samples=settings.buffer_samples,
            scheme=settings.scheme,
            **settings.numerology(),
        )
        self.prime = blocks.delay(gr.sizeof_gr_complex, settings.primed_buffers * settings.buffer_samples)
        self.payload = zeromq.pull_msg_source(payload, _POLL_MILLISECONDS, True)
        self.orders = zeromq.sub_msg_source(orders, _POLL_MILLISECONDS, False)
        self.status = zeromq.push_msg_sink(status, _POLL_MILLISECONDS, False)
        self.connect(self.radio.receiver, self.client, self.prime, self.radio.transmitter)
        self.msg_connect((self.payload, "out"), (self.client, "payload"))
        self.msg_connect((self.orders, "out"), (self.client, "orders"))
        self.msg_connect((self.client, "status"), (self.status, "in"))

    @property
    def streams_ended(self) -> bool:
        """Has the stream ended? Sockets would keep the flowgraph alive without it."""
        return self.client.ended
