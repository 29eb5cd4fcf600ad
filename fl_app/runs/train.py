# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the training loop: Algorithm 1 of the paper, line by line, with checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.make import checked_air, make_air
from fl_app.air.votes import vote_error_rate
from fl_app.config import RunSection, Settings
from fl_app.core.client import Broadcast, ClientReport, Evaluation
from fl_app.core.models import Buffers, average_buffers
from fl_app.core.server import Server
from fl_app.engine.pool import Workers, make_workers
from fl_app.runs.checkpoints import Checkpoint
from fl_app.runs.events import Events
from fl_app.runs.metrics import RoundFigures, rows_from, summary
from fl_app.runs.prepare import Objects, Prepared, prepare
from fl_app.runs.run_folder import RunError, RunFolder
from oac_blocks.errors import OacError

LOST_ROUNDS_ALLOWED = 3  # rounds in a row without an update after which the training ends
BUFFER_PREFIX = "buffer."


class TrainingError(OacError, RuntimeError):
    """The training cannot go on; the message says why and what to change."""


class Training:
    """Hold the state of a run between two rounds, and play one round after the other."""

    workers: Workers  # they compute the clients, and are there while rounds are played

    def __init__(self, server: Server, air: Air, buffers: Buffers, n_clients: int) -> None:
        self.server, self.air, self.buffers, self.n_clients = server, air, buffers, n_clients
        self.rows: list[RoundFigures] = []
        self.lost_in_a_row = 0

    def play_round(self, evaluate: bool) -> RoundFigures:
        """Play round t of Algorithm 1."""
        server, t, started = self.server, len(self.rows), time.perf_counter()
        k = server.selected.size
        # The server broadcasts w_t and S_t. Every client trains and keeps the entries where S_t = 1.
        reports = self.workers.train(Broadcast(t, server.w, server.selected))
        train_seconds = time.perf_counter() - started
        # All clients with finite gradients transmit at once, and the air adds up their signals.
        sending = [report for report in reports if report.transmits]
        air_started = time.process_time()
        uplink = self._uplink(sending, t) if sending else None
        air_cpu_seconds = time.process_time() - air_started
        # The server updates g_t, w_{t+1}, A_{t+1} and S_{t+1}.
        if uplink is not None and uplink.heard.size and np.isfinite(uplink.received).all():
            server.update(uplink.received)
            self.lost_in_a_row = 0
        else:
            server.skip()
            self.lost_in_a_row += 1
        tested = self._evaluate(t) if evaluate else None
        errors, compared = self._vote_errors(sending, uplink) if uplink is not None else (0, 0)
        dropped = len(reports) - len(sending)
        heard = uplink.heard.size if uplink is not None else 0
        row = RoundFigures(
            round=t,
            k=k,
            loss=_finite(float(np.mean([report.loss for report in sending]))) if sending else None,
            test_accuracy=tested.figures.get("accuracy") if tested else None,
            test_loss=_finite(tested.loss) if tested else None,
            mean_aou=float(server.age.mean()),
            max_aou=int(server.age.max()),
            participation=float(np.count_nonzero(server.times_sent > 1) / server.d),
            dropped_clients=dropped,
            absent_clients=self.n_clients - dropped - heard,
            vote_error_rate=errors / compared if compared else None,
            votes_compared=compared,
            symbols=uplink.symbols if uplink else 0,
            air_seconds=uplink.air_seconds if uplink else 0.0,
            snr_db=_finite(uplink.snr_db) if uplink else None,
            pmepr_db=_finite(uplink.pmepr_db) if uplink else None,
            train_seconds=train_seconds,
            air_cpu_seconds=air_cpu_seconds,
            seconds=time.perf_counter() - started,
            test_figures=_further_figures(tested),
            **self.workers.figures(),
        )
        self.rows.append(row)
        return row

    def _uplink(self, sending: Sequence[ClientReport], t: int) -> Uplink:
        payloads = [report.payload for report in sending if report.payload is not None]
        payload = np.stack(payloads) if len(payloads) == len(sending) else Unseen(self.server.selected.size)
        return self.air.uplink(payload, np.array([report.client for report in sending], np.int64), t)

    def _vote_errors(self, sending: Sequence[ClientReport], uplink: Uplink) -> tuple[int, int]:
        """Compare the soft votes with the majority of the heard clients; return (0, 0) if their votes are unknown."""
        heard = set(uplink.heard.tolist())
        known = [report.payload for report in sending if report.client in heard and report.payload is not None]
        if not self.air.scheme.decides or not known or len(known) < len(heard):
            return 0, 0
        entries = uplink.entries_of_heard()
        return vote_error_rate(np.stack(known)[:, entries], uplink.received[entries]) if entries.any() else (0, 0)

    def _evaluate(self, t: int) -> Evaluation:
        """Evaluate the model on the test set, with the batch-norm statistics that the clients measure now."""
        if self.buffers:
            measured = self.workers.measure(t, self.server.w)
            finite = [own for own in measured if all(np.isfinite(buffer).all() for buffer in own.values())]
            self.buffers = average_buffers(finite) if finite else self.buffers
        return self.workers.evaluate(self.server.w, self.buffers)

    def checkpoint(self, fingerprint: str) -> Checkpoint:
        """Return all that `restore` needs; everything else follows from the settings."""
        arrays = {**self.server.arrays(), **{BUFFER_PREFIX + name: array for name, array in self.buffers.items()}}
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
        self.buffers = {
            name.removeprefix(BUFFER_PREFIX): array for name, array in arrays.items() if name.startswith(BUFFER_PREFIX)
        }
        self.lost_in_a_row = state["lost_in_a_row"]
        self.rows = rows_from(state["rows"])


class Run:
    """Hold a run in memory: its parts, made from settings and objects, and the state of its training.

    Parameters
    ----------
    settings
        Settings of the run.
    objects
        Parts that a Python program gives, in place of those that the settings name.
    workers
        Compute the clients; by default processes on this machine, which start while the parts are made.
    air
        By default the air that the settings name, or the object's.
    """

    def __init__(
        self,
        settings: Settings,
        objects: Objects | None = None,
        workers: Workers | None = None,
        air: Air | None = None,
    ) -> None:
        self.settings, objects = settings, objects or Objects()
        self._workers: Workers | None = workers or self._make_workers()
        try:
            self.prepared = prepare(settings, objects)
            n_clients = settings.clients.n
            if air is None and objects.air is not None:
                air = checked_air(objects.air, settings.air, n_clients, "air")
            air = air or make_air(
                settings.air, n_clients, settings.run.seed, settings.radios, settings.link.min_clients
            )
            self.training = Training(self.prepared.server, air, self.prepared.buffers, n_clients)
        except BaseException:
            self._workers.close()
            raise

    def restore(self, checkpoint: Checkpoint, where: str) -> None:
        """Go on from a checkpoint; RunError if it is of other data or other first weights."""
        if checkpoint.state["fingerprint"] != self.prepared.fingerprint:
            raise RunError(f"{where} was trained on other data or other first weights than its config.toml gives")
        self.training.restore(checkpoint)
        self.training.rows = rows_of_a_longer_run(self.training.rows, self.settings.run)

    @contextmanager
    def playing(self) -> Iterator[Training]:
        """Start the workers and open the air, so that rounds can be played; both are closed at the end."""
        prepared, training = self.prepared, self.training
        workers, self._workers = self._workers or self._make_workers(), None
        try:
            workers.assign(prepared.local, self.settings.clients.n, prepared.data_of, prepared.test)
            training.workers = workers
            with training.air:
                workers.begin(training.server, prepared.fingerprint)
                yield training
        finally:
            workers.close()

    def close(self) -> None:
        """Close the workers, if no round was played."""
        if self._workers is not None:
            self._workers.close()

    def _make_workers(self) -> Workers:
        return make_workers(self.settings.run.workers, self.settings.clients.n)


def train(
    settings: Settings,
    folder: RunFolder,
    on_round: Callable[[RoundFigures], None],
    should_stop: Callable[[], bool],
    workers: Workers | None = None,
    before_keeping: Callable[[], None] = lambda: None,
    air: Air | None = None,
) -> dict[str, Any] | None:
    """Train from the folder's latest checkpoint, or from the beginning, to the last round.

    Parameters
    ----------
    settings
        Settings of the run.
    folder
        Folder of the run; it may be planned only.
    on_round
        Called with the figures of each round.
    should_stop
        Asked after each round; True ends the training there.
    workers
        Compute the clients; by default processes on this machine. They are closed at the end.
    before_keeping
        Called once, after the first round and before its figures are written. A folder that was only planned is made
        then, and not before.
    air
        By default the air that the settings name. It is open during the training, and closed at the end.

    Returns
    -------
    dict or None
        The result, or None if `should_stop` ended the training; the folder then has a checkpoint to go on from.
    """
    result = folder.read_result()
    if result is not None and result["rounds"] == settings.run.rounds:
        if workers is not None:
            workers.close()
        return result
    return train_run(Run(settings, workers=workers, air=air), folder, on_round, should_stop, before_keeping)


def train_run(
    run: Run,
    folder: RunFolder,
    on_round: Callable[[RoundFigures], None] = lambda _row: None,
    should_stop: Callable[[], bool] = lambda: False,
    before_keeping: Callable[[], None] = lambda: None,
) -> dict[str, Any] | None:
    """Train a run that is in memory, as `train` does, from the folder's latest checkpoint or from the run's own state.

    The run goes on from whichever has more rounds.
    """
    checkpoint = folder.latest()
    try:
        if checkpoint is not None and checkpoint.rounds_done > len(run.training.rows):
            run.restore(checkpoint, str(folder.path))
        with run.playing() as training:
            return _train_on(run.settings, folder, run.prepared, training, on_round, should_stop, before_keeping)
    finally:
        run.close()


def _train_on(
    settings: Settings,
    folder: RunFolder,
    prepared: Prepared,
    training: Training,
    on_round: Callable[[RoundFigures], None],
    should_stop: Callable[[], bool],
    before_keeping: Callable[[], None],
) -> dict[str, Any] | None:
    rounds = settings.run.rounds
    events: Events | None = None
    try:
        while len(training.rows) < rounds:
            done = len(training.rows) + 1
            row = training.play_round(evaluate=_is_evaluated(done, settings.run))
            if events is None:
                before_keeping()
                folder.begin(settings)
                folder.start_metrics(training.rows[:-1])
                with folder.writing("draw partition.png"):
                    prepared.plot(folder.path / "partition.png")
                with folder.writing("begin the events for TensorBoard"):
                    events = Events(folder.events, done - 1)
            folder.append(row)
            with folder.writing("write the events for TensorBoard"):
                events.add(row)
            on_round(row)
            if training.lost_in_a_row == LOST_ROUNDS_ALLOWED:
                raise TrainingError(
                    f"{LOST_ROUNDS_ALLOWED} rounds in a row, up to round {done}, brought no finite gradients: the "
                    f"training has diverged; try smaller learning rates than [clients] lr = {settings.clients.lr} "
                    f"and [server] lr = {settings.server.lr}"
                )
            stopping = done < rounds and should_stop()
            if stopping or done == rounds or done % settings.run.checkpoint_every == 0:
                folder.save(training.checkpoint(prepared.fingerprint))
            if stopping:
                return None
    finally:
        if events is not None:
            events.close()
    result = result_of(settings, folder, prepared.server, training.rows)
    folder.write_result(result)
    return result


def _is_evaluated(done: int, run: RunSection) -> bool:
    """Say whether the model is tested after this number of rounds."""
    return done in (1, run.rounds) or done % run.eval_every == 0


def rows_of_a_longer_run(rows: Sequence[RoundFigures], run: RunSection) -> list[RoundFigures]:
    """Return the rounds as a longer run has them: a shorter run also tested the model after its own last round."""
    return [
        row if _is_evaluated(row.round + 1, run) else replace(row, test_accuracy=None, test_loss=None) for row in rows
    ]


def result_of(settings: Settings, folder: RunFolder, server: Server, rows: Sequence[RoundFigures]) -> dict[str, Any]:
    """Return a run's result for people and scripts."""
    return {
        "run": str(folder.path),
        "policy": settings.selection.policy,
        "air": settings.air.name,
        "mode": settings.air.mode,
        "seed": settings.run.seed,
        "d": server.d,
        "k": server.policy.k,
        **summary(rows),
    }


def _further_figures(tested: Evaluation | None) -> dict[str, float] | None:
    """Return the task's figures of merit besides the accuracy, which has a place of its own; None if there is none."""
    figures = {name: value for name, value in tested.figures.items() if name != "accuracy"} if tested else {}
    return figures or None


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
