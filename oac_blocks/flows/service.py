# SPDX-License-Identifier: GPL-3.0-or-later
"""A flowgraph as a process: it says ``ready`` when it runs, and ends by a signal or when its streams do."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from gnuradio import gr

_STOPPING = {signal.SIGTERM, signal.SIGINT}


def serve(make_flowgraph: Callable[[], gr.top_block]) -> None:
    """Start the flowgraph and wait for the end; does not return."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)  # before GNU Radio makes threads, so that all inherit it
    gr.logging().set_default_level(gr.log_levels.warn)
    try:
        flowgraph = make_flowgraph()
    except (ValueError, RuntimeError) as error:
        sys.exit(f"the flowgraph cannot be built: {error}")
    flowgraph.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    stopping = threading.Event()
    threading.Thread(target=_watch, args=(flowgraph, stopping), daemon=True).start()
    signal.sigwait(_STOPPING)
    stopping.set()
    flowgraph.stop()
    # A block may wait for samples or votes that never come; there is nothing to lose by leaving at once.
    os._exit(0)


def _watch(flowgraph: gr.top_block, stopping: threading.Event) -> None:
    """A flowgraph whose streams end, as those of a radio that is unplugged, is of no use any more."""
    flowgraph.wait()
    if not stopping.is_set():
        sys.stderr.write("the flowgraph's streams have ended\n")
        sys.stderr.flush()
        os._exit(1)
