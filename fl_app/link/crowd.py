# SPDX-License-Identifier: GPL-3.0-or-later
"""Run many clients that do not train in one process, to measure what a link can carry."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import zmq

from fl_app.link.caller import Caller
from fl_app.link.client import Client, Inline
from fl_app.link.trainer import RandomVoter


def run_crowd(server: str, numbers: Sequence[int], patience_seconds: float = 60.0) -> list[str]:
    """Run clients with these numbers, a thread and a connection each, and return why the run ended for each."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def run_one(number: int) -> str:
        client = Client(server, Caller(number), RandomVoter(number), context=context, executor=Inline())
        try:
            return client.run(patience_seconds)
        finally:
            client.close()

    with ThreadPoolExecutor(len(numbers)) as threads:
        reasons = list(threads.map(run_one, numbers))
    context.term()
    return reasons
