# SPDX-License-Identifier: GPL-3.0-or-later
"""The loopback as a process of its own: PDUs come and go through GNU Radio's ZMQ blocks.

    python -m oac_blocks.flows.loopback_service FOLDER '{"clients": 2, "snr_db": 20.0}'

The sockets are files in the folder, one for each direction and kind; ``Endpoints`` names them. When all are there, one
line ``ready`` is printed. The process ends with its parent, or by SIGTERM or SIGINT.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from gnuradio import gr, zeromq

from oac_blocks.flows.endpoints import Endpoints
from oac_blocks.flows.loopback import LoopbackSettings, loopback

_POLL_MILLISECONDS = 10
_PR_SET_PDEATHSIG = 1


class LoopbackService:
    """The flowgraph with its sockets: payload in; next, soft votes and the calibrator's report out."""

    def __init__(self, settings: LoopbackSettings, endpoints: Endpoints) -> None:
        self.flow = loopback(settings)
        self.payload = zeromq.pull_msg_source(endpoints.payload, _POLL_MILLISECONDS, True)
        self.next = zeromq.push_msg_sink(endpoints.next, _POLL_MILLISECONDS, True)
        self.soft_votes = zeromq.push_msg_sink(endpoints.soft_votes, _POLL_MILLISECONDS, True)
        self.report = zeromq.push_msg_sink(endpoints.report, _POLL_MILLISECONDS, True)
        for client in self.flow.clients:
            self.flow.msg_connect((self.payload, "out"), (client, "payload"))
        self.flow.msg_connect((self.flow.control, "next"), (self.next, "in"))
        self.flow.msg_connect((self.flow.receiver, "soft_votes"), (self.soft_votes, "in"))
        self.flow.msg_connect((self.flow.calibrator, "report"), (self.report, "in"))


def end_with_parent() -> None:
    """Be told by the kernel when the process that started this one is gone."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def main(folder: str, settings: str) -> None:
    end_with_parent()
    stopping = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)  # before GNU Radio makes threads, so that all of them inherit it
    gr.logging().set_default_level(gr.log_levels.warn)
    service = LoopbackService(LoopbackSettings(**json.loads(settings)), Endpoints.in_folder(Path(folder)))
    service.flow.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.sigwait(stopping)
    service.flow.stop()
    # A client may wait for votes that never come; there is nothing to lose by leaving at once.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
