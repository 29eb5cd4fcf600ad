# SPDX-License-Identifier: GPL-3.0-or-later
"""Play rounds of Algorithm 1 of the paper, line by line, and hold the state between two rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.costs import joules_per_client, occupied_hertz
from fl_app.air.settings import AirSettings
from fl_app.air.votes import vote_error_rate
from fl_app.core.client import Broadcast, ClientReport, Evaluation
from fl_app.core.models import Buffers, average_buffers
from fl_app.core.server import Server
from fl_app.engine.pool import Workers
from fl_app.runs.checkpoints import Checkpoint
from fl_app.runs.metrics import RoundFigures, rows_from

BUFFER_PREFIX, RESIDUAL_PREFIX = "buffer.", "residual."


class Training:
    """Hold the state of a run between two rounds, and play one round after the other."""

    workers: Workers  # they compute the clients, and are there while rounds are played

    def __init__(
        self,
        server: Server,
        air: Air,
        air_settings: AirSettings,
        buffers: Buffers,
        participants: Callable[[int], NDArray[np.int64]],
    ) -> None:
        """participants: returns the clients that take part in a round."""
        self.server, self.air, self.buffers, self.participants = server, air, buffers, participants
        self._air_settings = air_settings
        self.rows: list[RoundFigures] = []
        self.residuals: dict[int, NDArray[np.float32]] = {}  # what clients have not sent yet, with error feedback
        self.lost_in_a_row = 0
        # What the last round brought, for displays. Payloads are let go: they may be larger than the model.
        self.last_reports: list[ClientReport] = []
        self.last_uplink: Uplink | None = None

    def play_round(self, evaluate: bool) -> RoundFigures:
        """Play round t of Algorithm 1."""
        server, t, started = self.server, len(self.rows), time.perf_counter()
        k = server.selected.size
        k_m = getattr(server.policy, "k_m", None) if k < server.d else None  # round 0 sends all entries
        # The server broadcasts w_t and S_t. Every client that takes part trains and keeps the entries where S_t = 1.
        reports = self.workers.train(Broadcast(t, server.w, server.selected, self.residuals))
        self.residuals |= {report.client: report.residual for report in reports if report.residual is not None}
        train_seconds = time.perf_counter() - started
        # All clients with finite gradients transmit at once, and the air adds up their signals.
        sending = [report for report in reports if report.transmits]
        air_started = time.process_time()
        uplink = self._uplink(sending, t) if sending else None
        air_cpu_seconds = time.process_time() - air_started
        # The server updates g_t, w_{t+1}, A_{t+1} and S_{t+1}.
        used = server.receive(None if uplink is None else uplink.of_someone(), t)
        self.lost_in_a_row = 0 if used else self.lost_in_a_row + 1
        tested = self._evaluate(t) if evaluate else None
        errors, compared, entries = self._vote_errors(sending, uplink) if uplink is not None else (0, 0, 0)
        dropped = len(reports) - len(sending)
        heard = uplink.heard.size if uplink is not None else 0
        row = RoundFigures(
            round=t,
            k=k,
            loss=finite(float(np.mean([report.loss for report in sending]))) if sending else None,
            test_accuracy=tested.figures.get("accuracy") if tested else None,
            test_loss=finite(tested.loss) if tested else None,
            mean_aou=server.ages.mean(),
            max_aou=server.ages.max(),
            participation=float(np.count_nonzero(server.times_sent > 1) / server.d),
            dropped_clients=dropped,
            absent_clients=self.participants(t).size - dropped - heard,
            vote_error_rate=errors / compared if compared else None,
            votes_compared=compared,
            tie_share=1 - compared / entries if entries else None,
            symbols=uplink.symbols if uplink else 0,
            air_seconds=uplink.air_seconds if uplink else 0.0,
            air_joules=joules_per_client(uplink, self._air_settings) if uplink else 0.0,
            air_hertz=occupied_hertz(uplink, self._air_settings) if uplink else None,
            snr_db=finite(uplink.snr_db) if uplink else None,
            pmepr_db=finite(uplink.pmepr_db) if uplink else None,
            train_seconds=train_seconds,
            air_cpu_seconds=air_cpu_seconds,
            seconds=time.perf_counter() - started,
            test_figures=_further_figures(tested),
            k_m=k_m,
            **self.workers.figures(),
        )
        self.rows.append(row)
        self.last_uplink, self.last_reports = (
            uplink,
            [replace(report, payload=None, residual=None) for report in reports],
        )
        return row

    def _uplink(self, sending: Sequence[ClientReport], t: int) -> Uplink:
        payloads = [report.payload for report in sending if report.payload is not None]
        payload = np.stack(payloads) if len(payloads) == len(sending) else Unseen(self.server.selected.size)
        return self.air.uplink(payload, np.array([report.client for report in sending], np.int64), t)

    def _vote_errors(self, sending: Sequence[ClientReport], uplink: Uplink) -> tuple[int, int, int]:
        """Compare the soft votes with the majority of the heard clients.

        Returns
        -------
        errors, compared, entries : int
            Wrong decisions; entries with a majority; all entries that were looked at. All are 0 if the votes are
            unknown.
        """
        heard = set(uplink.heard.tolist())
        known = [report.payload for report in sending if report.client in heard and report.payload is not None]
        if not self.air.scheme.decides or not known or len(known) < len(heard):
            return 0, 0, 0
        entries = uplink.entries_of_heard()
        if not entries.any():
            return 0, 0, 0
        errors, compared = vote_error_rate(np.stack(known)[:, entries], uplink.received[entries])
        return errors, compared, int(np.count_nonzero(entries))

    def _evaluate(self, t: int) -> Evaluation:
        """Evaluate the model on the test set, with the batch-norm statistics that the clients measure now."""
        if self.buffers:
            measured = self.workers.measure(t, self.server.w)
            finite = [own for own in measured if all(np.isfinite(buffer).all() for buffer in own.values())]
            self.buffers = average_buffers(finite) if finite else self.buffers
        return self.workers.evaluate(self.server.w, self.buffers)

    def collect(self) -> None:
        """Ask clients elsewhere for what they have not sent yet, so that the next checkpoint has it."""
        collected = self.workers.residuals(len(self.rows) - 1)
        self.residuals = self.residuals if collected is None else collected

    def checkpoint(self, fingerprint: str) -> Checkpoint:
        """Return all that `restore` needs; everything else follows from the settings."""
        arrays = {
            **self.server.arrays(),
            **{BUFFER_PREFIX + name: array for name, array in self.buffers.items()},
            **{f"{RESIDUAL_PREFIX}{client}": kept for client, kept in self.residuals.items()},
        }
        state = {
            "fingerprint": fingerprint,
            "policy": self.server.policy.state(),
            "air": self.air.state(),
            "lost_in_a_row": self.lost_in_a_row,
            "rows": [asdict(row) for row in self.rows],
        }
        return Checkpoint(len(self.rows), arrays, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state that `checkpoint` returned."""
        arrays, state = checkpoint.arrays, checkpoint.state
        self.server.load_arrays(arrays)
        self.server.policy.load_state(state["policy"])
        self.air.load_state(state["air"])
        self.buffers = buffers_of(arrays)
        self.residuals = {int(client): kept for client, kept in _named(arrays, RESIDUAL_PREFIX).items()}
        self.lost_in_a_row = state["lost_in_a_row"]
        self.rows = rows_from(state["rows"])


def buffers_of(arrays: dict[str, NDArray[Any]]) -> Buffers:
    """Return the model's buffers from the arrays of a checkpoint."""
    return _named(arrays, BUFFER_PREFIX)


def _named(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _further_figures(tested: Evaluation | None) -> dict[str, float | None] | None:
    """Return the task's figures of merit besides the accuracy, which has a place of its own; None if there is none."""
    figures = {name: finite(value) for name, value in tested.figures.items() if name != "accuracy"} if tested else {}
    return figures or None


def finite(value: float | None) -> float | None:
    """Return the value, or None in place of an infinity or NaN, which JSON lacks."""
    return value if value is not None and np.isfinite(value) else None
