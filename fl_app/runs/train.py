# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a run to its last round and keep it in a folder: figures, checkpoints, result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from fl_app.air.base import Air
from fl_app.config import Settings
from fl_app.core.server import Server
from fl_app.engine.pool import Workers
from fl_app.pictures import save_figure
from fl_app.runs.callbacks import CallbackList
from fl_app.runs.loggers import check_loggers, make_loggers
from fl_app.runs.metrics import RoundFigures, summary
from fl_app.runs.run import Run
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.scores import keep_scores, score_model
from fl_app.runs.versions import session
from oac_blocks.plugins import OBJECT_PREFIX


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
    settings, training = run.settings, run.training
    loggers: CallbackList | None = None
    rounds, is_stopping = settings.run.rounds, False
    try:
        check_loggers(settings)
        checkpoint = folder.latest()
        if checkpoint is not None and checkpoint.rounds_done > len(training.rows):
            run.restore(checkpoint, str(folder.path))
        with closing(run.rounds(rounds - len(training.rows))) as rows:
            for row in rows:
                done = row.round + 1
                if loggers is None:
                    loggers = _begin_keeping(run, folder, before_keeping)
                folder.append(row)
                with folder.writing("write the events of a logger"):
                    loggers.on_round(run, row)
                on_round(row)
                is_stopping = done < rounds and should_stop()
                if is_stopping or done == rounds or done % settings.run.checkpoint_every == 0:
                    training.collect()
                    folder.save(training.checkpoint(run.prepared.fingerprint))
                if is_stopping:
                    break
        if loggers is None and not folder.exists:  # all rounds were played before the run had a folder
            _keep(run, folder, training.rows)
            folder.save(training.checkpoint(run.prepared.fingerprint))
        result = None if is_stopping else result_of(settings, folder, run.server, training.rows)
        if result is not None:
            keep_scores(score_model(run.prepared, run.server.w, training.buffers, len(training.rows)), folder)
            folder.write_result(result)
        if loggers is not None:
            loggers.on_end(run, result)
        run.callbacks.on_end(run, result)
        return result
    finally:
        if loggers is not None:
            loggers.close()
        run.close()


def _begin_keeping(run: Run, folder: RunFolder, before_keeping: Callable[[], None]) -> CallbackList:
    """Make the folder after the first round, when there is something to keep, and return the loggers."""
    before_keeping()
    *earlier, _ = run.training.rows
    _keep(run, folder, earlier)
    with folder.writing("begin the events of a logger"):
        return make_loggers(run.settings, folder, len(earlier))


def _keep(run: Run, folder: RunFolder, rows: Sequence[RoundFigures]) -> None:
    """Write what a folder begins with: settings, versions, the figures of earlier rounds, the partition."""
    folder.begin(run.settings)
    folder.note_session(session())
    folder.start_metrics(rows)
    if not folder.partition.exists():  # a run that goes on has it
        from fl_app.data.partition_plot import partition_figure  # it needs matplotlib, which takes a while to import

        partition = run.prepared.partition()
        folder.write(folder.partition, partition.csv_text())
        with folder.writing("draw partition.png"):
            save_figure(partition_figure(partition), folder.path / "partition")


def result_of(
    settings: Settings, folder: RunFolder | None, server: Server, rows: Sequence[RoundFigures]
) -> dict[str, Any]:
    """Return a run's result for people and scripts."""
    return {
        "run": None if folder is None else str(folder.path),
        "policy": settings.selection.policy.removeprefix(OBJECT_PREFIX),
        "air": settings.air.name.removeprefix(OBJECT_PREFIX),
        "mode": settings.air.mode,
        "seed": settings.run.seed,
        "d": server.d,
        "k": server.policy.k,
        **summary(rows),
    }
