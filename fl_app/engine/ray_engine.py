# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the clients on a Ray cluster; the results are those of the local processes, bit for bit.

A worker is a Ray actor: a process on some machine of the cluster. The clients' data and the blocks of the test set are
put into Ray's object store once, from where a worker reads them without a copy. So any worker can compute any client,
and a lost worker costs the work that it had in hand. In a round, the broadcast is put into the store once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.client import (
    EVALUATION_BATCH,
    Broadcast,
    ClientGroup,
    ClientReport,
    Evaluation,
    LocalTraining,
    Score,
    evaluation_of,
)
from fl_app.core.models import Buffers
from fl_app.core.samples import DatasetSamples, Indices, Samples, blocks_of
from fl_app.core.server import Server
from fl_app.engine.pool import DataOf, answers_of
from fl_app.engine.ray_cluster import RayCluster
from fl_app.engine.settings import EngineSection
from fl_app.engine.worker_process import WorkerError

LOOK_SECONDS = 5.0  # seconds of silence after which the run looks whether its workers still have a place
LATE_SECONDS = 60.0  # seconds after which a worker that has not started is mentioned
_log = logging.getLogger(__name__)

Ref = Any  # ray.ObjectRef, the name of an object in Ray's store


@dataclass(frozen=True, eq=False)
class _SharedPart:
    """Some samples of a torch Dataset that is in the object store once, however many clients share it."""

    dataset: Ref
    indices: Indices


class _Actor:
    """Compute clients and test blocks in a process of the cluster."""

    def __init__(self, paths: Sequence[str]) -> None:
        sys.path += [path for path in paths if path not in sys.path]  # a user's models are found as in the main process
        self._held: dict[str, dict[int, Samples]] = {"clients": {}, "blocks": {}}
        self._datasets: dict[Ref, Any] = {}
        self._group: ClientGroup | None = None

    def start(self) -> int:
        return os.getpid()

    def answer(
        self, local: LocalTraining, what: str, new: dict[int, Ref], numbers: list[int], kind: str, content: Any
    ) -> list[tuple[str, Any]]:
        """Answer a request for these clients or blocks, in the form of `answers_of`.

        `new` says where in the object store those are that this worker has not seen yet.
        """
        return list(answers_of(self._compute, (local, what, new, numbers, kind, content)))

    def _compute(
        self, local: LocalTraining, what: str, new: dict[int, Ref], numbers: list[int], kind: str, content: Any
    ) -> Iterable[Any]:
        import ray

        if self._group is None:
            self._group = ClientGroup(local, {}, {})
        held = self._held[what]
        for number, samples in zip(new, ray.get(list(new.values())), strict=True):
            held[number] = self._with_dataset(samples) if isinstance(samples, _SharedPart) else samples
        mine = {number: held[number] for number in numbers}
        if what == "clients":
            self._group.clients = mine
        else:
            self._group.test_blocks = mine
        requests = {"train": self._group.train, "measure": self._group.measure, "evaluate": self._group.evaluate}
        answer: Iterable[Any] = requests[kind](*content)  # type: ignore[operator]
        return answer

    def _with_dataset(self, part: _SharedPart) -> Samples:
        import ray

        if part.dataset not in self._datasets:
            self._datasets[part.dataset] = ray.get(part.dataset)
        return DatasetSamples(self._datasets[part.dataset], part.indices)


@dataclass(eq=False)
class _RayWorker:
    actor: Any
    started: Ref  # is in the store once the worker has a place and runs
    born: float = field(default_factory=time.monotonic)
    is_late: bool = False  # True once the run has said that this worker waits for a place
    seen: dict[str, set[int]] = field(default_factory=lambda: {"clients": set(), "blocks": set()})


@dataclass(frozen=True, eq=False)
class _Task:
    """Part of a request: numbers of clients or blocks, the worker that has them in hand, and how often it was lost."""

    worker: _RayWorker
    numbers: list[int]
    losses: int


@dataclass(frozen=True, eq=False)
class _Request:
    what: str  # "clients" or "blocks"
    kind: str
    content: Ref
    words: str  # for errors: "training round 3"


class RayWorkers:
    """Compute the clients on a Ray cluster.

    Parameters
    ----------
    engine
        Settings of the engine.
    count
        Number of workers, at most one for each client and at most as many as fit on the cluster; 0 is as many as fit.
    n_clients
        Number of clients.
    """

    def __init__(self, engine: EngineSection, count: int, n_clients: int) -> None:
        self._engine, self._most = engine, min(count or n_clients, n_clients)
        self._workers: list[_RayWorker] = []
        self._store: dict[str, list[Ref]] = {}
        here = len(os.sched_getaffinity(0))
        wanted = self._most * engine.cpus_per_client if count else here
        self._cluster = RayCluster(engine.address, cpus=max(1, int(np.ceil(wanted))))
        self._ray = self._cluster.ray
        lost = self._ray.exceptions
        self._lost = (
            lost.RayActorError,
            lost.ObjectLostError,
            lost.NodeDiedError,
            lost.OutOfMemoryError,
            lost.WorkerCrashedError,
        )
        try:
            self._fill_places()  # workers start while this process loads the data
            if len(self._workers) < min(count, n_clients):
                _log.warning("the Ray cluster has places for %d of %d workers", len(self._workers), count)
        except BaseException:
            self.close()
            raise

    def assign(self, local: LocalTraining, n_clients: int, data_of: DataOf, test: Samples) -> None:
        self._task = local.task
        try:
            self._local = self._ray.put(local)
            datasets: dict[int, Ref] = {}
            clients = (data_of(n) for n in range(n_clients))
            self._store["clients"] = [self._put(samples, datasets) for samples in clients]
            self._store["blocks"] = [self._put(block, datasets) for block in blocks_of(test, EVALUATION_BATCH)]
        except (AttributeError, TypeError) as error:
            raise WorkerError(f"Ray cannot send a part of this run to its workers: {error}") from error

    def _put(self, samples: Samples, datasets: dict[int, Ref]) -> Ref:
        """Put samples into the object store, and a torch Dataset that many of them share only once."""
        if not isinstance(samples, DatasetSamples):
            return self._ray.put(samples)
        if id(samples.dataset) not in datasets:
            datasets[id(samples.dataset)] = self._ray.put(samples.dataset)
        return self._ray.put(_SharedPart(datasets[id(samples.dataset)], samples.indices))

    def begin(self, server: Server, fingerprint: str) -> None:
        pass

    def train(self, broadcast: Broadcast) -> list[ClientReport]:
        reports: list[ClientReport] = self._ask("clients", "train", (broadcast,), f"training round {broadcast.t}")
        return sorted(reports, key=lambda report: report.client)

    def measure(self, t: int, w: NDArray[np.float32]) -> list[Buffers]:
        measured: list[tuple[int, Buffers]]
        measured = self._ask("clients", "measure", (t, w), "measuring batch norm's statistics")
        return [buffers for _, buffers in sorted(measured, key=lambda pair: pair[0])]

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> Evaluation:
        scores: list[Score] = self._ask("blocks", "evaluate", (w, buffers), "evaluating the model")
        return evaluation_of(scores, self._task)

    def residuals(self, t: int) -> dict[int, NDArray[np.float32]] | None:  # noqa: ARG002
        return None

    def figures(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        for worker in self._workers:
            self._kill(worker)
        self._workers, self._store = [], {}
        self._cluster.close()

    def _places(self) -> int:
        return self._cluster.places(self._engine.cpus_per_client, self._engine.gpus_per_client)

    def _fill_places(self) -> None:
        """Start workers up to the number that was asked for, as far as the cluster has places for them."""
        if len(self._workers) == self._most:
            return
        places = self._places()
        if not places and not self._workers:
            engine = self._engine
            raise WorkerError(
                f"no node of the Ray cluster has [engine] cpus_per_client = {engine.cpus_per_client:g} CPUs and "
                f"gpus_per_client = {engine.gpus_per_client:g} GPUs: ask for less, or add a node"
            )
        while len(self._workers) < min(self._most, places):
            self._workers.append(self._start())

    def _start(self) -> _RayWorker:
        paths = [str(Path(path).absolute()) for path in (*sys.path, "")]  # "" is the current folder
        options = {"num_cpus": self._engine.cpus_per_client, "num_gpus": self._engine.gpus_per_client}
        actor = self._ray.remote(_Actor).options(**options, max_restarts=0, scheduling_strategy="SPREAD").remote(paths)
        return _RayWorker(actor, actor.start.remote())

    def _kill(self, worker: _RayWorker) -> None:
        with contextlib.suppress(Exception):  # it may be gone, and so may the cluster
            self._ray.kill(worker.actor)

    def _ask(self, what: str, kind: str, content: tuple[Any, ...], words: str) -> list[Any]:
        """Divide a request among the workers and collect the parts of all answers."""
        self._fill_places()
        request = _Request(what, kind, self._ray.put(content), words)
        tasks = self._deal(request, range(len(self._store[what])), self._workers, losses=0)
        answers: list[Any] = []
        while tasks:
            done, _ = self._ray.wait(list(tasks), num_returns=1, timeout=LOOK_SECONDS)
            for ref in done:
                task = tasks.pop(ref)
                try:
                    answers += self._read(ref, words)
                except self._lost as error:
                    tasks |= self._again(request, task, error)
            if not done:
                tasks |= self._without_place(request, tasks)
        return answers

    def _deal(
        self, request: _Request, numbers: Iterable[int], workers: list[_RayWorker], losses: int
    ) -> dict[Ref, _Task]:
        """Divide clients or blocks among workers: number n goes to worker n modulo their number."""
        numbers, tasks = list(numbers), {}
        for position, worker in enumerate(workers):
            part = numbers[position :: len(workers)]
            if part:
                tasks[self._send(request, worker, part)] = _Task(worker, part, losses)
        return tasks

    def _send(self, request: _Request, worker: _RayWorker, numbers: list[int]) -> Ref:
        store, seen = self._store[request.what], worker.seen[request.what]
        new = {number: store[number] for number in numbers if number not in seen}
        seen.update(new)
        return worker.actor.answer.remote(self._local, request.what, new, numbers, request.kind, request.content)

    def _read(self, ref: Ref, words: str) -> Iterator[Any]:
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:  # what was sent cannot be read there, for example
            raise WorkerError(f"a worker on Ray failed while {words}:\n{error}") from error
        for kind, content in answer:
            if kind == "failed":
                raise WorkerError(f"a worker on Ray failed while {words}:\n{content}")
            if kind == "part":
                yield content

    def _again(self, request: _Request, task: _Task, error: Exception) -> dict[Ref, _Task]:
        """Have the part of a lost worker computed again: by a new one if there is a place for it, or by the others."""
        told = " ".join(str(error).split())
        if getattr(error, "actor_init_failed", False):
            raise WorkerError(f"a worker cannot start on the Ray cluster: {told}") from error
        if task.losses == self._engine.retries:
            raise WorkerError(
                f"{task.losses + 1} workers in a row were lost while {request.words}; [engine] retries = "
                f"{self._engine.retries} allows no more. The last one: {told}"
            ) from error
        _log.warning("a worker was lost while %s; its part is computed again (%s)", request.words, told)
        self._kill(task.worker)
        if task.worker in self._workers:
            position = self._workers.index(task.worker)
            self._workers.remove(task.worker)
            if self._places() > len(self._workers):
                self._workers.insert(position, self._start())
                return self._deal(request, task.numbers, [self._workers[position]], task.losses + 1)
        self._fill_places()
        return self._deal(request, task.numbers, self._workers, task.losses + 1)

    def _without_place(self, request: _Request, tasks: dict[Ref, _Task]) -> dict[Ref, _Task]:
        """Take back the parts of workers that wait for a place which the cluster no longer has."""
        waiting = [worker for worker in self._workers if not self._ray.wait([worker.started], timeout=0)[0]]
        excess = len(self._workers) - self._places()
        for worker in waiting:
            if not worker.is_late and time.monotonic() - worker.born > LATE_SECONDS:
                worker.is_late = True
                _log.warning("a worker still waits for a place on the Ray cluster; do other programs hold its CPUs?")
        again: dict[Ref, _Task] = {}
        for worker in waiting[: max(0, excess)]:
            self._kill(worker)
            self._workers.remove(worker)
            for ref in [ref for ref, task in tasks.items() if task.worker is worker]:
                task = tasks.pop(ref)
                self._fill_places()
                again |= self._deal(request, task.numbers, self._workers, task.losses)
        return again
