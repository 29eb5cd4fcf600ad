# SPDX-License-Identifier: GPL-3.0-or-later
"""One Pluto of the bench as a process: the server, or the client of this number.

    python -m oac_blocks.flows.pluto_service server '{"uri": "ip:192.168.2.1", "frequency_hz": 2.45e9}' '{"status": ..}'
    python -m oac_blocks.flows.pluto_service 0 '{"uri": "ip:192.168.3.1", ...}' '{"status": ..., "payload": ...}'

The last argument names the ZMQ endpoints: those of ``ServerEndpoints``; for a client ``status``, ``orders`` and
``payload``.
"""

from __future__ import annotations

import json
import sys

from gnuradio import gr

from oac_blocks.flows.pluto import PlutoSettings, ServerEndpoints, pluto_client, pluto_server
from oac_blocks.flows.service import serve


def main(role: str, settings: str, endpoints: str) -> None:
    def make() -> gr.top_block:
        radio, where = PlutoSettings(**json.loads(settings)), json.loads(endpoints)
        if role == "server":
            return pluto_server(radio, ServerEndpoints(**where))
        return pluto_client(radio, int(role), **where)

    serve(make)


if __name__ == "__main__":
    main(*sys.argv[1:])
