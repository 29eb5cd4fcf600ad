# SPDX-License-Identifier: GPL-3.0-or-later
"""Score the model at the end of a run: its confusion matrix on the test set, and how well it does for each client."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fl_app.core.client import EVALUATION_BATCH, LocalTraining, evaluation_of, score_block
from fl_app.core.models import Buffers, set_buffers, set_parameters
from fl_app.core.samples import Samples, blocks_of
from fl_app.core.streams import stream
from fl_app.runs.prepare import Prepared, prepare
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.runs.training import buffers_of, finite
from oac_blocks.errors import OacError

LEAST_OWN_SAMPLES = 50  # samples of a client that are scored at least


@dataclass(frozen=True)
class ClientScore:
    """Say how well the model does for one client.

    Attributes
    ----------
    client, samples : int
        Its number, and the number of its training samples.
    scored : int
        Number of its training samples that were used, evenly spread over all of them.
    loss, figures : float, dict
        Mean loss and the task's figures of merit on these samples; None where they are not finite.
    on_its_classes : float or None
        Accuracy on the test set if its classes were as frequent there as they are at this client: the mean of the
        accuracies of the classes, weighted by the client's samples. None without classes, or if the test set lacks one.
    """

    client: int
    samples: int
    scored: int
    loss: float | None
    figures: dict[str, float | None]
    on_its_classes: float | None


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Hold the scores of the model after some rounds.

    Attributes
    ----------
    rounds : int
        Rounds that the model was trained for.
    confusion : ndarray of int64, shape (classes, classes), or None
        Test samples by their class (row) and by the model's answer (column); None for a task without classes.
    class_names : tuple of str
    main_figure : str
        The task's figure of merit by which models are compared.
    clients : list of ClientScore
    """

    rounds: int
    confusion: NDArray[np.int64] | None
    class_names: tuple[str, ...]
    main_figure: str
    clients: list[ClientScore]

    @property
    def accuracy(self) -> float | None:
        """Return the share of correct answers on the test set; None without classes."""
        return None if self.confusion is None else float(np.trace(self.confusion) / self.confusion.sum())

    def json_text(self) -> str:
        """Return the scores as JSON."""
        confusion = None if self.confusion is None else self.confusion.tolist()
        return json.dumps({**vars(self), "confusion": confusion, "clients": [vars(one) for one in self.clients]}) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the scores that `json_text` wrote."""
        told = json.loads(text)
        confusion = None if told["confusion"] is None else np.array(told["confusion"], np.int64)
        clients = [ClientScore(**one) for one in told["clients"]]
        return cls(told["rounds"], confusion, tuple(told["class_names"]), told["main_figure"], clients)

    def confusion_csv(self) -> str:
        """Return the confusion matrix: a row for each class, with a column for each answer."""
        assert self.confusion is not None
        rows = zip(self.class_names, self.confusion.tolist(), strict=True)
        return _csv([["class by answer", *self.class_names], *([name, *row] for name, row in rows)])

    def clients_csv(self) -> str:
        """Return a line for each client; a field without a value is empty."""
        figures = list(dict.fromkeys(name for one in self.clients for name in one.figures))
        head = ["client", "samples", "scored", "loss", *figures, "test_accuracy_of_its_classes"]
        rows = [
            [one.client, one.samples, one.scored, one.loss, *map(one.figures.get, figures), one.on_its_classes]
            for one in self.clients
        ]
        return _csv([head, *rows])


def score_model(prepared: Prepared, w: NDArray[np.float32], buffers: Buffers, rounds: int) -> ModelScores:
    """Score a model on the test set and on the clients' training data, in this process.

    This takes about as long as to test it twice: the clients share as many samples as the test set has, or 50 each.
    """
    local, threads = prepared.local, torch.get_num_threads()
    torch.set_num_threads(local.threads)
    try:
        model = local.model.build().to(_device(local))
        set_parameters(model, w)
        set_buffers(model, buffers)
        model.eval()
        confusion = _confusion(model, local, prepared.test)
        rates = _rates(confusion, prepared)
        most = max(LEAST_OWN_SAMPLES, len(prepared.test) // local.n_clients)
        clients = [
            _score_client(model, local, client, prepared.data_of(client), most, rates)
            for client in range(local.n_clients)
        ]
    finally:
        torch.set_num_threads(threads)
    classes = 0 if confusion is None else len(confusion)
    names = prepared.class_names or ()
    if len(names) != classes:
        names = tuple(map(str, range(classes)))
    return ModelScores(rounds, confusion, names, local.task.main_figure, clients)


def keep_scores(scores: ModelScores, folder: RunFolder) -> None:
    """Write scores.json, per_client.csv and, for a task with classes, confusion.csv."""
    folder.write(folder.scores, scores.json_text())
    folder.write(folder.per_client, scores.clients_csv())
    if scores.confusion is not None:
        folder.write(folder.confusion, scores.confusion_csv())


def kept_scores(folder: RunFolder) -> ModelScores | None:
    """Return the scores of the latest checkpoint's model; None if they have not been computed."""
    checkpoint = folder.latest()
    try:
        scores = ModelScores.from_json(folder.scores.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # none, or damaged
        return None
    return scores if checkpoint is not None and scores.rounds == checkpoint.rounds_done else None


def renew_scores(folder: RunFolder) -> str:
    """Compute the scores of the latest checkpoint's model if they are missing, and return why it was not possible."""
    checkpoint = folder.latest()
    if checkpoint is None or kept_scores(folder) is not None:
        return ""
    try:
        prepared = prepare(folder.settings())
        if prepared.fingerprint != checkpoint.state["fingerprint"]:
            raise RunError(f"{folder.path} was trained on other data or other first weights than its config.toml gives")
    except OacError as error:  # data that is no longer there, or parts that a Python program gave as objects
        return str(error)
    scores = score_model(prepared, checkpoint.arrays["w"], buffers_of(checkpoint.arrays), checkpoint.rounds_done)
    keep_scores(scores, folder)
    return ""


def _device(local: LocalTraining) -> str:
    """Return the device of the clients, or the processor if this machine of a cluster lacks it."""
    try:
        torch.empty(1, device=local.device)
    except (RuntimeError, AssertionError):
        return "cpu"
    return local.device


def _confusion(model: torch.nn.Module, local: LocalTraining, test: Samples) -> NDArray[np.int64] | None:
    """Count the test samples by class and answer, in the blocks and with the draws of every test of the run."""
    total = None
    for block, data in enumerate(blocks_of(test, EVALUATION_BATCH)):
        _, outputs, targets = score_block(model, local.task, block, data, stream(local.seed, "test", block))
        answers = local.task.predicted(outputs)
        if answers is None:
            return None
        classes = outputs.shape[1]
        wanted, given = targets.reshape(-1), answers.reshape(-1)
        pairs = (wanted * classes + given)[wanted >= 0]  # a negative target means: do not count
        counts = torch.bincount(pairs, minlength=classes * classes).cpu().numpy().reshape(classes, classes)
        total = counts if total is None else total + counts
    return total


def _rates(confusion: NDArray[np.int64] | None, prepared: Prepared) -> NDArray[np.float64] | None:
    """Return each client's accuracy on its own mix of the test set's classes, NaN where it is not known."""
    if confusion is None or prepared.local.task.strata_name != "class":
        return None
    counts = prepared.partition().counts
    if counts.shape[1] > len(confusion):
        return None  # the split goes by other groups than the classes
    own = np.pad(counts, ((0, 0), (0, len(confusion) - counts.shape[1])))
    of_class = confusion.sum(axis=1)
    with np.errstate(invalid="ignore"):
        accuracy = np.diag(confusion) / of_class
    share = own / own.sum(axis=1, keepdims=True)
    return np.where(share > 0, share * accuracy, 0.0).sum(axis=1)


def _score_client(
    model: torch.nn.Module,
    local: LocalTraining,
    client: int,
    data: Samples,
    most: int,
    rates: NDArray[np.float64] | None,
) -> ClientScore:
    scored = min(most, len(data))
    chosen = data.part(np.arange(scored) * len(data) // scored)
    rng = stream(local.seed, "own samples", client)
    blocks = blocks_of(chosen, EVALUATION_BATCH)
    scores = [score_block(model, local.task, number, block, rng)[0] for number, block in enumerate(blocks)]
    own = evaluation_of(scores, local.task)
    rate = None if rates is None else finite(float(rates[client]))
    figures = {name: finite(value) for name, value in own.figures.items()}
    return ClientScore(client, len(data), scored, finite(own.loss), figures, rate)


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return stream.getvalue()
