# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the clients in this process or in several; the results are the same bit for bit.

Client n and block n of the test set belong to process n modulo the number of processes. Their data is sent to that
process once. A round then costs one broadcast, in memory that all processes share, and one report from each client.
"""

from __future__ import annotations

import contextlib
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

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
from fl_app.core.samples import Samples, blocks_of
from fl_app.core.server import Server
from fl_app.engine.settings import EngineSection
from fl_app.engine.shared_memory import Outbox, read_copy, read_in_place, take_over
from fl_app.engine.worker_process import STARTED, WorkerError, WorkerProcess, ignore_signals

DataOf = Callable[[int], Samples]


class Workers(Protocol):
    """Compute all clients of a run."""

    def assign(self, local: LocalTraining, n_clients: int, data_of: DataOf, test: Samples) -> None:
        """Hand out the data once, before the first round."""
        ...

    def begin(self, server: Server, fingerprint: str) -> None:
        """Prepare for the first round from this state.

        `fingerprint` identifies the data, the split and the first weights.
        """
        ...

    def train(self, broadcast: Broadcast) -> list[ClientReport]:
        """Play one round and return the reports of all clients that have one, in the order of their numbers."""
        ...

    def measure(self, t: int, w: NDArray[np.float32]) -> list[Buffers]:
        """Return each client's batch-norm statistics of the model w after round t, in the clients' order."""
        ...

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> Evaluation:
        """Return the mean loss and the task's figures of merit on the test set."""
        ...

    def residuals(self, t: int) -> dict[int, NDArray[np.float32]] | None:
        """Return what clients elsewhere keep after round t, for a checkpoint; None if their reports have it."""
        ...

    def figures(self) -> dict[str, Any]:
        """Return what these workers add to the figures of the round that was just trained."""
        ...

    def close(self) -> None: ...


def make_workers(count: int, n_clients: int, engine: EngineSection | None = None) -> Workers:
    """Make workers with `count` processes, at most one for each client.

    0 computes in this process, or, on a Ray cluster, in as many processes as fit.
    """
    if engine is not None and engine.name == "ray":
        from fl_app.engine.ray_engine import RayWorkers  # needs the optional package ray

        return RayWorkers(engine, count, n_clients)
    return InProcess() if count == 0 else ProcessPool(min(count, n_clients))


class InProcess:
    """Compute all clients one after the other in this process."""

    def assign(self, local: LocalTraining, n_clients: int, data_of: DataOf, test: Samples) -> None:
        clients = {n: data_of(n) for n in range(n_clients)}
        self._group = ClientGroup(local, clients, dict(enumerate(blocks_of(test, EVALUATION_BATCH))))

    def begin(self, server: Server, fingerprint: str) -> None:
        pass

    def train(self, broadcast: Broadcast) -> list[ClientReport]:
        return list(self._group.train(broadcast))

    def measure(self, t: int, w: NDArray[np.float32]) -> list[Buffers]:
        return [buffers for _, buffers in self._group.measure(t, w)]

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> Evaluation:
        return evaluation_of(self._group.evaluate(w, buffers), self._group.local.task)

    def residuals(self, t: int) -> dict[int, NDArray[np.float32]] | None:  # noqa: ARG002
        return None

    def figures(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


class ProcessPool:
    """Compute the clients in several processes that each hold some of them.

    The processes start while this process loads the data.
    """

    def __init__(self, count: int) -> None:
        self._workers: list[WorkerProcess] = []
        self._outbox = Outbox.create()
        self._answers: dict[Connection, Outbox] = {}  # memory that a worker writes its answers to
        try:
            for _ in range(count):
                self._workers.append(WorkerProcess(_serve))
                self._answers[self._workers[-1].connection] = Outbox.create()
        except BaseException:
            self.close()
            raise

    def assign(self, local: LocalTraining, n_clients: int, data_of: DataOf, test: Samples) -> None:
        self._task, count, blocks = local.task, len(self._workers), blocks_of(test, EVALUATION_BATCH)
        self._n_clients = n_clients
        for number, worker in enumerate(self._workers):
            own_clients = {n: data_of(n) for n in range(number, n_clients, count)}
            own_blocks = {n: blocks[n] for n in range(number, len(blocks), count)}
            self._send(worker, (local, own_clients, own_blocks))
            self._hand_over(worker)

    def begin(self, server: Server, fingerprint: str) -> None:
        pass

    def train(self, broadcast: Broadcast) -> list[ClientReport]:
        own = [range(number, self._n_clients, len(self._workers)) for number in range(len(self._workers))]
        requests = [("train", broadcast.for_clients(clients)) for clients in own]
        reports: list[ClientReport] = self._ask(requests, f"training round {broadcast.t}")
        return sorted(reports, key=lambda report: report.client)

    def measure(self, t: int, w: NDArray[np.float32]) -> list[Buffers]:
        measured: list[tuple[int, Buffers]] = self._ask(
            self._for_all("measure", t, w), "measuring batch norm's statistics"
        )
        return [buffers for _, buffers in sorted(measured, key=lambda pair: pair[0])]

    def evaluate(self, w: NDArray[np.float32], buffers: Buffers) -> Evaluation:
        scores: list[Score] = self._ask(self._for_all("evaluate", w, buffers), "evaluating the model")
        return evaluation_of(scores, self._task)

    def residuals(self, t: int) -> dict[int, NDArray[np.float32]] | None:  # noqa: ARG002
        return None

    def figures(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        for worker in self._workers:
            worker.connection.close()  # the process reads the end of its pipe and exits
        for worker in self._workers:
            worker.end()
        for memory in (self._outbox, *self._answers.values()):
            memory.close()
        self._workers, self._answers = [], {}

    def _for_all(self, *request: Any) -> list[tuple[Any, ...]]:
        return [request] * len(self._workers)

    def _ask(self, requests: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
        """Send each process its request and collect the parts of all answers."""
        self._outbox.clear()
        for worker, packed in zip(self._workers, self._outbox.pack(requests), strict=True):
            self._send(worker, packed)
        answers: list[Any] = []
        busy = {worker.connection: worker for worker in self._workers}
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                try:
                    kind, content = connection.recv()
                except (EOFError, OSError):
                    raise busy[connection].death(what) from None
                if kind == STARTED:
                    busy[connection].has_started = True
                elif kind == "part":
                    answers.append(read_copy(content, self._answers[connection].file))
                elif kind == "failed":
                    raise WorkerError(f"a worker process failed while {what}:\n{content}")
                else:
                    del busy[connection]
        return answers

    def _hand_over(self, worker: WorkerProcess) -> None:
        """Share the memory of the requests and that of this worker's answers."""
        pid = worker.process.pid
        assert pid is not None
        try:
            for memory in (self._outbox, self._answers[worker.connection]):
                memory.hand_over(worker.connection, pid)
        except (BrokenPipeError, ConnectionResetError):
            raise worker.death("waiting for work") from None

    def _send(self, worker: WorkerProcess, message: Any) -> None:
        try:
            worker.connection.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise worker.death("waiting for work") from None
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise WorkerError(
                f"worker processes cannot receive a part of this run ({error}): define models, losses and data sets in "
                "a module, not inside a function or as a lambda, or set workers = 0"
            ) from None


def _serve(connection: Connection) -> None:
    """Run a worker process: receive its clients' data, then serve requests until the pipe is closed."""
    ignore_signals()
    with contextlib.suppress(EOFError, OSError):  # the main process has ended, or has closed the pool
        connection.send((STARTED, None))
        first = connection.recv()
        requests_file, outbox = take_over(connection), Outbox(take_over(connection))
        try:
            group = ClientGroup(*first)
            requests: dict[str, Callable[..., Iterable[Any]]]
            requests = {"train": group.train, "measure": group.measure, "evaluate": group.evaluate}
        except Exception:
            connection.send(("failed", traceback.format_exc()))
            return
        while True:
            kind, *content = read_in_place(connection.recv(), requests_file)
            outbox.clear()
            for what, answer in answers_of(requests[kind], content):
                connection.send((what, outbox.pack([answer])[0] if what == "part" else answer))
            del content, answer  # these may refer to the memory, which is about to change


def answers_of(request: Callable[..., Iterable[Any]], content: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an answer as ("part", part), then ("done", None), or ("failed", traceback) on an error."""
    try:
        for part in request(*content):
            yield "part", part
    except Exception:
        yield "failed", traceback.format_exc()
        return
    yield "done", None
