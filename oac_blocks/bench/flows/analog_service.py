# SPDX-License-Identifier: GPL-3.0-or-later
"""The analog loopback as a process of its own: PDUs come and go through GNU Radio's ZMQ blocks.

    python -m oac_blocks.bench.flows.analog_service FOLDER '{"clients": 2, "fading": "rayleigh"}'

The sockets are files in the folder; ``AnalogEndpoints`` names them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gnuradio import zeromq

from oac_blocks.bench.flows.analog_loopback import AnalogLoopbackSettings, analog_loopback
from oac_blocks.bench.flows.analog_messages import AnalogEndpoints
from oac_blocks.bench.flows.service import serve

_POLL_MILLISECONDS = 10


class linked_analog_loopback(analog_loopback):  # noqa: N801 (GNU Radio's way of naming)
    """The flowgraph with its sockets: goes and payloads in, what the server heard out, for one application."""

    def __init__(self, settings: AnalogLoopbackSettings, endpoints: AnalogEndpoints) -> None:
        analog_loopback.__init__(self, settings)
        self.go_socket = zeromq.pull_msg_source(endpoints.go, _POLL_MILLISECONDS, True)
        self.payload_socket = zeromq.pull_msg_source(endpoints.payload, _POLL_MILLISECONDS, True)
        self.entries_socket = zeromq.push_msg_sink(endpoints.entries, _POLL_MILLISECONDS, True)
        self.msg_connect((self.go_socket, "out"), (self.rounds, "go"))
        self.msg_connect((self.payload_socket, "out"), (self.rounds, "payload"))
        self.msg_connect((self.rounds, "entries"), (self.entries_socket, "in"))


def main(folder: str, settings: str) -> None:
    serve(
        lambda: linked_analog_loopback(
            AnalogLoopbackSettings(**json.loads(settings)), AnalogEndpoints.in_folder(Path(folder))
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
