# SPDX-License-Identifier: GPL-3.0-or-later
"""One Pluto of the bench as a process: the server, or the client of this number.

    python -m oac_blocks.bench.flows.pluto_service server '{"uri": "ip:192.168.2.1", ...}' '{"status": ...}'
    python -m oac_blocks.bench.flows.pluto_service 0 '{"uri": "ip:192.168.3.1", ...}' '{"status": ..., "payload": ...}'

The last argument names the ZMQ endpoints: those of ``ServerEndpoints``; for a client ``status``, ``orders`` and
``payload``. With ``--wait-for-radio`` behind it the process waits until the radio answers, and with
``--record={"folder": ..., "most_mb": ...}`` the server records the rounds that it receives.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from gnuradio import gr

from oac_blocks.bench.flows.endpoints import WAIT_FOR_RADIO
from oac_blocks.bench.flows.pluto import PlutoSettings, ServerEndpoints, pluto_client, pluto_server
from oac_blocks.bench.flows.service import end_recording, recorder_of, serve
from oac_blocks.radio import pluto_state
from oac_blocks.radio.base import RadioError

_LOOK_SECONDS = 2.0  # between two looks at the state of the radio


def main(role: str, settings: str, endpoints: str, *options: str) -> None:
    values, where = json.loads(settings), json.loads(endpoints)

    def make() -> gr.top_block:
        radio = PlutoSettings(**values)
        if role == "server":
            flowgraph = pluto_server(radio, ServerEndpoints(**where))
            if (recorder := recorder_of(options, radio.facts(), waits=False)) is not None:
                flowgraph.record(recorder)
            return flowgraph
        return pluto_client(radio, int(role), **where)

    uri = str(values.get("uri"))
    threading.Thread(target=_watch_radio, args=(uri,), daemon=True).start()
    serve(make, WAIT_FOR_RADIO in options, lambda flowgraph: bool(flowgraph.streams_ended), _leave_radio)


def _watch_radio(uri: str) -> None:
    """Say so when another program powers an oscillator of the radio down, or the like: nothing else would show it."""
    told: list[str] = []
    before: list[str] = []
    while True:
        time.sleep(_LOOK_SECONDS)
        try:
            found = pluto_state.hindrances(pluto_state.read_state(uri), transmits=True)
        except RadioError:
            continue  # over USB only one program gets in at a time; a radio that is gone ends the flowgraph
        if found == before and found != told:  # seen twice: this process, too, sets the radio up bit by bit
            now = f"another program has changed it: {', '.join(found)}" if found else "set up as it should be again"
            sys.stderr.write(f"the radio at {uri}: {now}\n")
            sys.stderr.flush()
            told = found
        before = found


def _leave_radio(flowgraph: pluto_server | pluto_client) -> None:
    if isinstance(flowgraph, pluto_server):
        end_recording(flowgraph.recorder)
    for failure in flowgraph.radio.leave():
        sys.stderr.write(f"the radio could not be left as it was found: {failure}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
