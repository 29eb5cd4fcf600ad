# SPDX-License-Identifier: GPL-3.0-or-later
"""The loopback as a process of its own: PDUs come and go through GNU Radio's ZMQ blocks.

    python -m oac_blocks.bench.flows.loopback_service FOLDER '{"clients": 2, "snr_db": 20.0}'

With ``--record={"folder": ..., "most_mb": ...}`` behind it, the received rounds are recorded. The sockets are files in
the folder, one for each direction and kind; ``Endpoints`` names them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gnuradio import zeromq

from oac_blocks.bench.flows.endpoints import Endpoints
from oac_blocks.bench.flows.loopback import LoopbackSettings, loopback
from oac_blocks.bench.flows.service import end_recording, recorder_of, serve

_POLL_MILLISECONDS = 10


class linked_loopback(loopback):  # noqa: N801 (GNU Radio's way of naming)
    """The flowgraph with its sockets: payloads and ballots in; next, soft votes and the calibrator's report out.

    Where rounds wait for all clients, there is one application, and it misses nothing: it pulls. Where they do not,
    they go on whoever listens: applications subscribe.
    """

    def __init__(self, settings: LoopbackSettings, endpoints: Endpoints, options: Sequence[str] = ()) -> None:
        loopback.__init__(self, settings)
        self.recorder = recorder_of(options, settings.facts(), waits=True)
        if self.recorder is not None:
            self.receiver.record(self.recorder)
        self.payload_socket, self.ballot_socket = (
            zeromq.pull_msg_source(endpoint, _POLL_MILLISECONDS, True)
            for endpoint in (endpoints.payload, endpoints.ballot)
        )
        make_sink = zeromq.pub_msg_sink if settings.arm_seconds else zeromq.push_msg_sink
        self.next_socket, self.soft_votes_socket, self.report_socket = (
            make_sink(endpoint, _POLL_MILLISECONDS, True)
            for endpoint in (endpoints.next, endpoints.soft_votes, endpoints.report)
        )
        for client in self.clients:
            self.msg_connect((self.payload_socket, "out"), (client, "payload"))
            self.msg_connect((self.ballot_socket, "out"), (client, "orders"))
        self.msg_connect((self.ballot_socket, "out"), (self.control, "ballot"))
        self.msg_connect((self.control, "next"), (self.next_socket, "in"))
        self.msg_connect((self.receiver, "soft_votes"), (self.soft_votes_socket, "in"))
        self.msg_connect((self.calibrator, "report"), (self.report_socket, "in"))


def main(folder: str, settings: str, *options: str) -> None:
    values, endpoints = LoopbackSettings(**json.loads(settings)), Endpoints.in_folder(Path(folder))
    serve(
        lambda: linked_loopback(values, endpoints, options),
        at_end=lambda flowgraph: end_recording(flowgraph.recorder),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
