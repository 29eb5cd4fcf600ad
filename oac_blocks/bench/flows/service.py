# SPDX-License-Identifier: GPL-3.0-or-later
"""A flowgraph as a process: it says ``ready`` when it runs, and ends by a signal or when its streams do.

When a radio is gone, GNU Radio's blocks end their streams or throw in a thread of their own, and what is left of them
can neither go on nor be taken down. So the process ends, and whoever started it starts another (`fl_app radio` does).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from gnuradio import gr

from oac_blocks.bench.flows.endpoints import READY, RECORD, STREAMS_ENDED
from oac_blocks.errors import OacError
from oac_blocks.record.metadata import Facts
from oac_blocks.record.recorder import Recorder
from oac_blocks.stop_signal import StopSignal

_STOP_SECONDS = 3.0  # seconds that blocks may take to release their radio
_LOOK_SECONDS = 0.2
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 5.0  # between two looks for a radio


class NoRadioError(OacError, ValueError):
    """The radio does not answer; it may later."""


def serve(
    make_flowgraph: Callable[[], gr.top_block],
    wait_for_radio: bool = False,
    streams_ended: Callable[[Any], bool] = lambda _flowgraph: False,
    at_end: Callable[[Any], None] = lambda _flowgraph: None,
) -> NoReturn:
    """Run a flowgraph until a signal comes or its streams end; does not return.

    Parameters
    ----------
    make_flowgraph : callable
        Makes the flowgraph; ``NoRadioError`` says that its radio does not answer.
    wait_for_radio : bool
        Look for a radio that does not answer until it does. Otherwise that is the end.
    streams_ended : callable
        Says whether the flowgraph's streams have ended where other blocks, such as sockets, keep it alive.
    at_end : callable
        Called with the flowgraph when a signal has stopped it.
    """
    # Handlers and not masks: libraries have made threads before, and these mask nothing.
    stop = StopSignal()
    gr.logging().set_default_level(gr.log_levels.warn)
    try:
        flowgraph = _found(make_flowgraph, stop) if wait_for_radio else make_flowgraph()
    except (ValueError, RuntimeError) as error:
        sys.exit(f"the flowgraph cannot be built: {error}")
    flowgraph.start()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    waiting = threading.Thread(target=flowgraph.wait, daemon=True)
    waiting.start()
    while not stop.wait(_LOOK_SECONDS):
        if not waiting.is_alive() or streams_ended(flowgraph):
            sys.stderr.write(f"{STREAMS_ENDED}\n")
            sys.stderr.flush()
            os._exit(1)
    flowgraph.stop()
    # A block may wait for samples or votes that never come, so the flowgraph is not waited for long.
    waiting.join(_STOP_SECONDS)
    at_end(flowgraph)
    os._exit(0)


def recorder_of(options: Sequence[str], facts: Facts, *, waits: bool) -> Recorder | None:
    """Return the recorder that the options of a service ask for; None if they do not."""
    for option in options:
        if option.startswith(RECORD):
            asked = json.loads(option.removeprefix(RECORD))
            return Recorder(Path(asked["folder"]), facts, asked["most_mb"], waits=waits)
    return None


def end_recording(recorder: Recorder | None) -> None:
    """Write what waits to be written, and say on standard error what was recorded."""
    if recorder is not None:
        recorder.close()
        sys.stderr.write(f"{recorder.summary}\n")
        sys.stderr.flush()


def _found(make_flowgraph: Callable[[], gr.top_block], stop: StopSignal) -> gr.top_block:
    """The flowgraph, once its radio answers."""
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return make_flowgraph()
        except NoRadioError:
            if stop.wait(pause_seconds):
                os._exit(0)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
