# SPDX-License-Identifier: GPL-3.0-or-later
"""Run many independent jobs: one after the other in this process, or side by side in several processes.

A job is a function call that may take hours: it reports progress, and it is asked to stop, not killed, when it has
something to keep. Another place to run, such as a cluster, is one more class with the method `map` of `Runner`.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from fl_app.engine.worker_process import STARTED, WorkerProcess, ignore_signals
from oac_blocks.errors import OacError

LOOK_SECONDS = 0.2  # seconds between two looks at `should_stop` while no process says anything
_STOP = "stop"

Job = TypeVar("Job")
ShouldStop = Callable[[], bool]


class JobStopped(OacError):  # noqa: N818 (it is not an error: the job was asked to stop)
    """The job ended early, as it was asked to."""


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to one job.

    begun: a place takes the job. keeping: the job has something to keep from now on. told: the job told `content`.
    done: the job returned `content`. failed: `content` is the reason, as a text. stopped: the job ended early.
    """

    job: int  # index of the job
    kind: Literal["begun", "keeping", "told", "done", "failed", "stopped"]
    content: Any = None


class JobControl(Protocol):
    """Connect a job to the place that runs it: the job reports its progress, and asks whether to stop."""

    def tell(self, content: Any) -> None:
        """Report progress."""
        ...

    def should_stop(self) -> bool:
        """Say whether the job should save its state and raise JobStopped."""
        ...

    def begin_keeping(self) -> None:
        """Note that the job has something to keep from now on; raise JobStopped if it should stop before that."""
        ...


class Runner(Protocol):
    """A place that runs jobs."""

    def map(
        self,
        function: Callable[[Job, JobControl], Any],
        jobs: Sequence[Job],
        on_event: Callable[[JobEvent], None],
        should_stop: ShouldStop,
    ) -> None:
        """Run the function for each job, in any order, and report what happens.

        When `should_stop` says True, no further job begins, and those that run are asked to stop. A job that fails
        does not affect the others.
        """
        ...


def make_runner(count: int) -> Runner:
    """Make a runner with `count` processes; 0 runs the jobs in this process, one after the other."""
    return InThisProcess() if count == 0 else SideBySide(count)


class InThisProcess:
    """Run the jobs one after the other in this process."""

    def map(
        self,
        function: Callable[[Job, JobControl], Any],
        jobs: Sequence[Job],
        on_event: Callable[[JobEvent], None],
        should_stop: ShouldStop,
    ) -> None:
        for number, job in enumerate(jobs):
            if should_stop():
                return
            on_event(JobEvent(number, "begun"))
            on_event(_ended(number, function, job, _DirectControl(number, on_event, should_stop)))


class _DirectControl:
    def __init__(self, number: int, on_event: Callable[[JobEvent], None], should_stop: ShouldStop) -> None:
        self._number, self._on_event, self.should_stop = number, on_event, should_stop

    def tell(self, content: Any) -> None:
        self._on_event(JobEvent(self._number, "told", content))

    def begin_keeping(self) -> None:
        if self.should_stop():
            raise JobStopped
        self._on_event(JobEvent(self._number, "keeping"))


class SideBySide:
    """Run the jobs in several processes, each of which runs one job after the other.

    A process is not started for each job, as it takes seconds to import what a job needs. If a process is killed, its
    job fails, and another process takes its place.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def map(
        self,
        function: Callable[[Job, JobControl], Any],
        jobs: Sequence[Job],
        on_event: Callable[[JobEvent], None],
        should_stop: ShouldStop,
    ) -> None:
        crew = _Crew(function, jobs, on_event)
        try:
            for _ in range(min(self._count, len(jobs))):
                crew.add()
            is_stopping = False
            while crew.busy:
                for connection in wait(list(crew.busy), LOOK_SECONDS):
                    assert isinstance(connection, Connection)
                    crew.listen(connection)
                if not is_stopping and should_stop():
                    is_stopping = True
                    crew.stop()
        except BaseException:
            crew.kill()
            raise
        crew.close()


@dataclass(eq=False)
class _Member:
    worker: WorkerProcess
    job: int
    is_keeping: bool = False


class _Crew:
    """The processes of `SideBySide`, and the jobs that wait for one."""

    def __init__(self, function: Callable[..., Any], jobs: Sequence[Any], on_event: Callable[[JobEvent], None]) -> None:
        self._function, self._jobs, self._on_event = function, jobs, on_event
        self._waiting = deque(range(len(jobs)))
        self._idle: list[WorkerProcess] = []
        self.busy: dict[Connection, _Member] = {}

    def add(self) -> None:
        """Start one more process, with the next job."""
        self._hand_out(WorkerProcess(_serve, Path.cwd()))

    def _hand_out(self, worker: WorkerProcess) -> None:
        if not self._waiting:
            self._idle.append(worker)
            return
        number = self._waiting.popleft()
        self.busy[worker.connection] = _Member(worker, number)
        self._on_event(JobEvent(number, "begun"))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `listen` meets the end of the pipe
            worker.connection.send((self._function, self._jobs[number]))

    def listen(self, connection: Connection) -> None:
        """Take one message of a process."""
        member = self.busy[connection]
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            self._bury(member)
            return
        if kind == STARTED:
            member.worker.has_started = True
            return
        member.is_keeping |= kind == "keeping"
        self._on_event(JobEvent(member.job, kind, content))
        if kind in ("done", "failed", "stopped"):
            del self.busy[connection]
            self._hand_out(member.worker)

    def _bury(self, member: _Member) -> None:
        del self.busy[member.worker.connection]
        death = member.worker.death("it ran this job", "set jobs = 0")
        if not member.worker.has_started:  # neither would another process
            raise death
        self._on_event(JobEvent(member.job, "failed", str(death)))
        if self._waiting:
            self.add()

    def stop(self) -> None:
        """Ask the jobs to stop, and kill those that have nothing to keep; no further job begins."""
        self._waiting.clear()
        for connection, member in list(self.busy.items()):
            if member.is_keeping:
                with contextlib.suppress(OSError):  # it has just ended, and `listen` will notice
                    connection.send(_STOP)
            else:
                del self.busy[connection]
                member.worker.kill()
                self._on_event(JobEvent(member.job, "stopped"))

    def close(self) -> None:
        for worker in self._idle:
            worker.connection.close()  # the process reads the end of its pipe and exits
        for worker in self._idle:
            worker.end()

    def kill(self) -> None:
        for worker in (*self._idle, *(member.worker for member in self.busy.values())):
            worker.kill()


def _serve(connection: Connection, folder: Path) -> None:
    """Run a process: one job after the other, until the pipe is closed."""
    ignore_signals()
    os.chdir(folder)  # relative paths mean the same as in the main process, which may have changed its folder
    with contextlib.suppress(EOFError, OSError):  # the main process has ended, or needs this process no longer
        connection.send((STARTED, None))
        while True:
            message = connection.recv()
            if message != _STOP:  # a stop that came too late for the job before
                function, job = message
                event = _ended(0, function, job, _PipeControl(connection))
                connection.send((event.kind, event.content))


class _PipeControl:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._asked = False

    def tell(self, content: Any) -> None:
        self._send("told", content)

    def should_stop(self) -> bool:
        try:
            while not self._asked and self._connection.poll():
                self._asked = self._connection.recv() == _STOP
        except (EOFError, OSError):  # the main process has ended
            self._asked = True
        return self._asked

    def begin_keeping(self) -> None:
        if self.should_stop():
            raise JobStopped
        self._send("keeping")

    def _send(self, kind: str, content: Any = None) -> None:
        try:
            self._connection.send((kind, content))
        except (BrokenPipeError, ConnectionResetError):
            self._asked = True  # the main process has ended: the job saves its state and ends, too


def _ended(number: int, function: Callable[[Job, JobControl], Any], job: Job, control: JobControl) -> JobEvent:
    """Run one job to its end, and return how it ended."""
    try:
        return JobEvent(number, "done", function(job, control))
    except JobStopped:
        return JobEvent(number, "stopped")
    except (OacError, OSError) as error:  # errors that users can correct: one sentence
        return JobEvent(number, "failed", str(error))
    except Exception:
        return JobEvent(number, "failed", traceback.format_exc())
