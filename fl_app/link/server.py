# SPDX-License-Identifier: GPL-3.0-or-later
"""The server as a process: the training loop of `fl_app.runs.train`, with clients at the other end of a ROUTER socket.

`LinkWorkers` is to the loop what a pool of processes is to `fl_app train`: it is handed a broadcast and brings reports.
So selection, air, checkpoints and figures are the same code, and with all clients present so are the bits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl_app.config import ConfigError, Settings
from fl_app.core.client import Broadcast, ClientReport, LocalTraining
from fl_app.core.models import Buffers, get_buffers
from fl_app.core.samples import Samples
from fl_app.core.server import Server
from fl_app.engine.pool import DataOf, InProcess
from fl_app.link import curve
from fl_app.link.desk import Desk
from fl_app.link.downlink import change_of, checksum_of, whole_model
from fl_app.link.router import LinkError, RouterLink
from fl_app.link.terms import ClientAnswer, Job, JobKind, Residuals, Terms
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.run_hash import config_hash
from fl_app.runs.train import train

if TYPE_CHECKING:
    from fl_app.link.radio_bench import RadioBench

_log = logging.getLogger(__name__)

LONELY_SECONDS = 15.0  # without any client, until that is said
STOP_SECONDS = 10.0  # how long radios that decide nothing are waited for once the run is asked to stop

Status = dict[str, Any]
Levels = NDArray[np.float64]


class LinkWorkers(InProcess):
    """Clients elsewhere. The test set is evaluated here."""

    def __init__(
        self,
        settings: Settings,
        link: RouterLink,
        should_stop: Callable[[], bool],
        on_status: Callable[[Status], None] = lambda _status: None,
        bench: RadioBench | None = None,
    ) -> None:
        """bench: the flowgraph of the server's radio, for clients that transmit by their own radios."""
        if settings.link.min_clients > settings.clients.n:
            raise ConfigError(
                f"[link] min_clients = {settings.link.min_clients}: there are only {settings.clients.n} clients"
            )
        self._settings, self._link, self._should_stop, self._on_status = settings, link, should_stop, on_status
        self._state: int | None = None
        self._sent: NDArray[np.int64]
        self._updates = 0
        self._status_at = 0.0
        self._bench = bench
        self._levels: dict[int, tuple[float, float]] = {}

    def assign(self, local: LocalTraining, n_clients: int, data_of: DataOf, test: Samples) -> None:  # noqa: ARG002
        self._participants = local.participants
        super().assign(local, 0, data_of, test)  # the clients' data is theirs
        buffers = get_buffers(self._group.model)
        self._specs = {name: (buffer.dtype.name, buffer.shape) for name, buffer in buffers.items()}

    def begin(self, server: Server, fingerprint: str) -> None:
        settings, link = self._settings, self._settings.link
        self._server = server
        terms = Terms(
            n_clients=settings.clients.n,
            d=server.d,
            scheme=server.scheme,
            optimizer=settings.server.options(settings.clients),
            config=settings.toml(),
            config_hash=config_hash(settings),
            fingerprint=fingerprint,
            heartbeat_seconds=link.heartbeat_seconds,
            silent_seconds=link.silent_seconds,
            cut_off_after=link.cut_off_after,
            buffers=self._specs,
            admitted=None if self._link.keys is None else self._link.keys.admitted,
            payload_to="server" if self._bench is None else "both" if link.audit_votes else "radio",
        )
        self._desk = Desk(terms, lambda: whole_model(server), self._link.is_reachable)

    def train(self, broadcast: Broadcast) -> list[ClientReport]:
        if self._state is None:
            self._follow(broadcast.t, broadcast.residuals)
            self._gather()
        self._follow(broadcast.t)
        answers = self._ask("train", broadcast.t)
        self._take_levels(answers)
        return [ClientReport(one.client, one.payload, one.loss, one.seconds, one.sent) for one in answers]

    # For the air whose payloads the clients transmit by their own radios (fl_app.link.radio_uplink.RadioClients).

    def transmit(self, clients: Collection[int], t: int, burst: Mapping[str, float]) -> None:
        """Have these clients hand a part of their payload of round t to their radios."""
        self._link.send(self._desk.transmit(clients, t, burst))

    def listen(self, undecided_seconds: float) -> None:
        """Let messages in for a moment. A run that is to stop does not wait for radios that decide nothing."""
        if self._should_stop() and undecided_seconds > STOP_SECONDS:
            raise KeyboardInterrupt  # the flowgraph may be gone, and there may never be a whole round to finish
        self._listen()

    def train_again(self, t: int) -> list[int]:
        """Ask for the payloads of round t once more, and return the clients that have one.

        A client that was started anew has no votes any more; the others give the same answer again.
        """
        answers = self._ask("train", t)
        self._take_levels(answers)
        return [answer.client for answer in answers if answer.sent]

    def levels(self, clients: Collection[int]) -> tuple[Levels, Levels]:
        """Return RMS and peak of the entries of these clients, as they have reported them."""
        rms, peak = zip(*(self._levels[client] for client in clients), strict=True)
        return np.array(rms), np.array(peak)

    def _take_levels(self, answers: list[ClientAnswer]) -> None:
        self._levels = {answer.client: answer.levels for answer in answers if answer.levels is not None}

    def measure(self, t: int, w: NDArray[np.float32]) -> list[Buffers]:  # noqa: ARG002
        self._follow(t + 1)  # the model after round t is the one that round t + 1 starts from
        return [dict(one.arrays) for one in self._ask("measure", t)]

    def residuals(self, t: int) -> dict[int, NDArray[np.float32]] | None:
        if not self._settings.clients.error_feedback:
            return None
        return {one.client: one.arrays["residual"] for one in self._ask("residual", t)}

    def figures(self) -> dict[str, Any]:
        sent_bytes, told = self._link.sent_bytes, self._link.told
        figures = {"downlink_bytes": round(sent_bytes / len(told)) if told else None}
        self._link.sent_bytes, self._link.told = 0, set()
        return figures

    def _follow(self, state: int, residuals: Residuals | None = None) -> None:
        """Show the desk where the model stands, once for each round; `residuals` come from a checkpoint."""
        if state == self._state:
            return
        server, change = self._server, None
        if self._state is not None:
            change = change_of(server, self._sent) if server.updates > self._updates else {}
        self._desk.set_state(state, change, checksum_of(server), server.rate, residuals)
        self._state, self._sent, self._updates = state, server.selected, server.updates

    def _gather(self) -> None:
        """Before the first round: wait for all clients, but not for ever."""
        link, n = self._settings.link, self._settings.clients.n
        self._link.serve(self._desk)
        started, told = time.monotonic(), False
        while len(self._desk.ready()) < n:
            waited = time.monotonic() - started
            if waited > LONELY_SECONDS and not self._desk.sessions and not told:
                told = True
                _log.warning("no client has come in %.0f s: are they running? %s", waited, curve.ONE_SIDED)
            if waited >= link.join_seconds and len(self._desk.ready()) >= link.min_clients:
                _log.warning("starting with %d of %d clients", len(self._desk.ready()), n)
                return
            self._wait(started, len(self._desk.ready()), link.min_clients, "are here")

    def _ask(self, kind: JobKind, t: int) -> list[ClientAnswer]:
        """Put a job to the clients: those that take part in a round of training, all for statistics.

        Returns their answers by the deadline, in the clients' order. If there are too few, those who have not answered
        are asked once more. An answer that is there stays: the same client would give the same one again.
        """
        link, desk = self._settings.link, self._desk
        started = time.monotonic()
        clients = self._participants(t).tolist() if kind == "train" else None
        self._link.send(desk.open(kind, t, self._server.selected.size, started, clients))
        job, deadline = self._current(), started + link.round_seconds
        least = min(link.min_clients, len(job.clients))
        while True:
            now = time.monotonic()
            enough = len(job.answers) >= least
            if enough and (now >= deadline or not desk.waiting_for(now)):
                break
            if now >= deadline:
                _log.warning(
                    "round %d: %d of at least %d clients answered within %g s; trying again",
                    t,
                    len(job.answers),
                    least,
                    link.round_seconds,
                )
                deadline = now + link.round_seconds
            self._wait(started, len(job.answers), least, f"answered in round {t}")
        self.show_status()
        desk.close()
        return [job.answers[client] for client in sorted(job.answers)]

    def _current(self) -> Job:
        assert self._desk.job is not None
        return self._desk.job

    def _wait(self, started: float, count: int, least: int, what: str) -> None:
        patience_seconds = self._settings.link.patience_seconds
        if count < least:
            if time.monotonic() - started > patience_seconds:
                raise LinkError(f"only {count} of at least {least} clients {what} in {patience_seconds:g} s")
            working = self._desk.job is not None and self._desk.waiting_for(time.monotonic())
            if self._should_stop() and not working:
                raise KeyboardInterrupt  # there may never be a whole round to finish
        self._listen()

    def _listen(self) -> None:
        """To clients, and to the radios' flowgraph if there is one, for a moment."""
        seconds = self._settings.link.heartbeat_seconds / 4
        self._link.pump(seconds, self._bench.sockets if self._bench else ())
        if self._bench is not None:
            self._bench.take()
        now = time.monotonic()
        if now >= self._status_at:
            self._status_at = now + seconds
            self.show_status()

    def show_status(self) -> None:
        now = time.monotonic()
        clients = self._desk.snapshot(now)
        if self._bench is not None:
            clients = [{**client, "radio": self._bench.state_of(client["id"])} for client in clients]
        status = {"clients": clients, "counts": dict(self._desk.counts)}
        self._on_status({**status, "round": None if self._desk.job is None else self._desk.job.round})


def serve(
    settings: Settings,
    folder: RunFolder,
    on_round: Callable[[RoundFigures], None],
    should_stop: Callable[[], bool],
    link: RouterLink,
    on_status: Callable[[Status], None] = lambda _status: None,
    before_keeping: Callable[[], None] = lambda: None,
) -> dict[str, Any] | None:
    """As `fl_app.runs.train.train`, with clients over the link. Clients are told when the run is over, and why."""
    bench, air = None, None
    if settings.link.radio:
        from fl_app.link.radio_bench import RadioBench  # needs GNU Radio, which a server without radios does not
        from fl_app.link.radio_uplink import RadioAir

        bench = RadioBench(settings.link.radio, settings.clients.n, settings.air)
    workers = LinkWorkers(settings, link, should_stop, on_status, bench)
    if bench is not None:
        air = RadioAir(settings.air, bench, workers, settings.link.min_clients, settings.link.patience_seconds)
    try:
        result = train(settings, folder, on_round, should_stop, workers, before_keeping, air)
    except (RuntimeError, ValueError, OSError) as error:
        link.farewell(f"the server stopped: {error}")
        raise
    finally:
        if air is not None:
            air.close()
    if result is not None:
        link.farewell("the run is finished")
    return result
