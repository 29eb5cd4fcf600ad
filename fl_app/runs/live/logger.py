# SPDX-License-Identifier: GPL-3.0-or-later
"""Write for the live page what metrics.jsonl does not hold: round.json, clients.jsonl and run.log in the run's folder.

The files are small however long a run takes. Nothing of the run depends on them, and a disk that refuses them does not
end it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from fl_app.core.models import layers
from fl_app.core.number_texts import figure_texts
from fl_app.processes.identity import identity
from fl_app.runs.callbacks import Callback
from fl_app.runs.checkpoints import write_atomically
from fl_app.runs.live.client_history import ClientHistory
from fl_app.runs.live.log_file import LogFile
from fl_app.runs.live.snapshot import age_histogram, client_lines, layer_shares, scene
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from fl_app.runs.run import Run

LEAST_SECONDS = 0.2  # seconds between two snapshots at least
MOST_SHARE = 0.05  # share of the time that snapshots may take, as processor time


class LiveLogger(Callback):
    """Describe the last round in round.json, the clients' radios so far in clients.jsonl, events in run.log."""

    def __init__(self, folder: RunFolder, rounds_done: int) -> None:
        self._folder, self._identity = folder, identity()
        self._history: ClientHistory | None = None
        with contextlib.suppress(OSError):
            self._history = ClientHistory(folder.clients, rounds_done)
        self._log, self._ended = LogFile(folder.log), False
        self._log.say(f"the run goes on after round {rounds_done}" if rounds_done else "the run begins")
        self._next = 0.0  # time of the next snapshot, on the monotonic clock
        self._shown = -1  # round of the last snapshot

    def on_round(self, run: Run, row: RoundFigures) -> None:
        """Write a snapshot, unless the last one was written a moment ago."""
        began = time.thread_time()
        if row.is_tested:
            figures = figure_texts(row.test_accuracy, row.test_figures)
            told = "".join(f", {name} {value}" for name, value in figures.items())
            self._log.say(f"round {row.round + 1} of {run.settings.run.rounds}{told}")
        if row.dropped_clients or row.absent_clients:
            told = f"{row.dropped_clients} clients dropped, {row.absent_clients} absent"
            self._log.warn(f"round {row.round + 1}: {told}")
        if time.monotonic() < self._next and row.round + 1 < run.settings.run.rounds:
            return
        self._write(run, row)
        self._next = time.monotonic() + max(LEAST_SECONDS, (time.thread_time() - began) / MOST_SHARE)

    def on_end(self, run: Run, result: dict[str, Any] | None) -> None:
        self._ended = True
        rows = run.training.rows
        if rows and self._shown != rows[-1].round and run.training.last_reports:
            self._write(run, rows[-1])
        self._log.say("the run was stopped after a whole round" if result is None else "the run is finished")

    def close(self) -> None:
        error = sys.exc_info()[1]
        if not self._ended:
            self._log.warn("the run ended early" + (f": {error or type(error).__name__}" if error else ""))
        self._log.close()

    def _write(self, run: Run, row: RoundFigures) -> None:
        training, server, n = run.training, run.server, run.settings.clients.n
        seen, uplink = training.air.observe(), training.last_uplink
        participants = set(training.participants(row.round).tolist())
        clients = client_lines(n, participants, training.last_reports, uplink, seen)
        shown = {
            "round": row.round,
            "process": self._identity,
            "n_clients": n,
            "scheme": training.air.scheme.name,
            "aou": age_histogram(server.age),
            "layers": layer_shares(layers(run.prepared.model), server.age, server.times_sent),
            "clients": clients,
            **scene(uplink, seen),
        }
        self._shown = row.round
        with contextlib.suppress(OSError):
            write_atomically(self._folder.snapshot, json.dumps(shown).encode(), durable=False)
            if self._history is not None:
                self._history.add(row.round, clients)
