# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold a run in memory: its parts, made from settings and objects, and the state of its training."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import nn

from fl_app.air.base import Air
from fl_app.air.make import make_air
from fl_app.config import RunSection, Settings
from fl_app.core.models import set_buffers, set_parameters
from fl_app.core.server import Server
from fl_app.engine.pool import Workers, make_workers
from fl_app.runs.callbacks import CallbackList
from fl_app.runs.checkpoints import Checkpoint
from fl_app.runs.history import History
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.prepare import Objects, prepare
from fl_app.runs.run_folder import RunError
from fl_app.runs.training import Training
from oac_blocks.errors import OacError

LOST_ROUNDS_ALLOWED = 3  # rounds in a row without an update after which the training ends


class TrainingError(OacError, RuntimeError):
    """The training cannot go on; the message says why and what to change."""


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
    callbacks
        They are told of each round.
    """

    def __init__(
        self,
        settings: Settings,
        objects: Objects | None = None,
        workers: Workers | None = None,
        air: Air | None = None,
        callbacks: CallbackList | None = None,
    ) -> None:
        self.settings, objects = settings, objects or Objects()
        self.callbacks = callbacks or CallbackList()
        self._workers: Workers | None = workers or self._make_workers()
        try:
            self.prepared = prepare(settings, objects)
            n_clients = settings.clients.n
            air = air or make_air(
                settings.air,
                n_clients,
                settings.run.seed,
                settings.radios,
                settings.link.min_clients,
                own=objects.air,
            )
            self.training = Training(
                self.prepared.server, air, settings.air, self.prepared.buffers, self.prepared.local.participants
            )
        except BaseException:
            self._workers.close()
            raise

    def restore(self, checkpoint: Checkpoint, where: str) -> None:
        """Go on from a checkpoint; RunError if it is of other data or other first weights."""
        if checkpoint.state["fingerprint"] != self.prepared.fingerprint:
            raise RunError(f"{where} was trained on other data or other first weights than its config.toml gives")
        try:
            self.training.restore(checkpoint)
        except ValueError as error:
            raise RunError(f"the checkpoint of {where} does not fit its config.toml: {error}") from error
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

    def rounds(self, count: int) -> Generator[RoundFigures, None, None]:
        """Play so many rounds, and yield the figures of each; the caller may stop at any of them.

        The model is tested after the first round, after every ``eval_every`` rounds and after the last.
        """
        if count <= 0:
            return
        with self.playing() as training:
            last = len(training.rows) + count
            plan = self.settings.run.with_values(rounds=max(last, 1))
            while len(training.rows) < last:
                row = training.play_round(evaluate=is_evaluated(len(training.rows) + 1, plan))
                self.callbacks.on_round(self, row)
                yield row
                if training.lost_in_a_row == LOST_ROUNDS_ALLOWED:
                    raise TrainingError(
                        f"{LOST_ROUNDS_ALLOWED} rounds in a row, up to round {row.round + 1}, brought no finite "
                        "gradients: the training has diverged; try smaller learning rates than [clients] "
                        f"lr = {self.settings.clients.lr} and [server] lr = {self.settings.server.lr}"
                    )

    @property
    def server(self) -> Server:
        """Return the server: w, g, age, selected."""
        return self.training.server

    @property
    def history(self) -> History:
        """Return the figures of the rounds so far."""
        return History(self.training.rows)

    @property
    def model(self) -> nn.Module:
        """Return the model with the server's weights and the last batch-norm statistics."""
        model = self.prepared.model
        set_parameters(model, self.server.w)
        set_buffers(model, self.training.buffers)
        return model

    def close(self) -> None:
        """Close the workers, if no round was played."""
        if self._workers is not None:
            self._workers.close()

    def _make_workers(self) -> Workers:
        return make_workers(self.settings.run.workers, self.settings.clients.n, self.settings.engine)


def is_evaluated(done: int, run: RunSection) -> bool:
    """Say whether the model is tested after this number of rounds."""
    return done in (1, run.rounds) or done % run.eval_every == 0


def rows_of_a_longer_run(rows: Sequence[RoundFigures], run: RunSection) -> list[RoundFigures]:
    """Return the rounds as a longer run has them: a shorter run also tested the model after its own last round."""
    return [
        row if is_evaluated(row.round + 1, run) else replace(row, test_accuracy=None, test_loss=None, test_figures=None)
        for row in rows
    ]
