# SPDX-License-Identifier: GPL-3.0-or-later
"""Implement the server's side of the protocol without a socket: messages in, messages out, answers to the open job.

    outgoing = desk.handle(identity, user, frames, now)     # never raises, whatever the frames are

A connection is known by the identity that ZeroMQ gave it, and with CURVE also by its public key. A sender gets a strike
for each message that cannot be read, that it may not send, that repeats another or that is out of order. After a few
strikes the sender is cut off. Late and repeated answers, which honest clients send over a bad network, are counted and
dropped without a strike.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray

from fl_app.link.downlink import Arrays
from fl_app.link.strikes import Strikes
from fl_app.link.terms import (
    FOLLOW,
    HASH_CHARS,
    INSTANCE_CHARS,
    MOST_LEVEL,
    NOTHING,
    ClientAnswer,
    Job,
    JobKind,
    Outgoing,
    Packed,
    Residuals,
    Session,
    Terms,
)
from fl_app.link.wire import NO_ROUND, SERVER, Frame, Message, WireError, pack_header, unpack

_log = logging.getLogger(__name__)


class Desk:
    """Keep the sessions, the strikes and one job at a time."""

    def __init__(
        self, terms: Terms, whole_model: Callable[[], Arrays], is_reachable: Callable[[bytes], bool] = lambda _: True
    ) -> None:
        self.terms, self._whole_model, self._is_reachable = terms, whole_model, is_reachable
        self.sessions: dict[bytes, Session] = {}
        self.by_client: dict[int, Session] = {}
        self.counts: Counter[str] = Counter()
        self.job: Job | None = None
        self.stopped: str | None = None
        self._strikes = Strikes()
        self._state, self._checksum, self._eta = NO_ROUND, "", 0.0
        self._change: Packed | None = None
        self._model: Packed | None = None
        self._residuals: Residuals = {}
        self._last_round = NO_ROUND
        self._handlers: dict[str, Callable[[Session, Message, float], list[Outgoing]]] = {
            "ready": self._on_ready,
            "done": self._on_done,
            "statistics": lambda *given: self._on_arrays("measure", *given),
            "residual": lambda *given: self._on_arrays("residual", *given),
            "heartbeat": self._on_heartbeat,
            "resync": self._on_resync,
            "leave": self._on_leave,
        }

    # The model and the job

    def set_state(
        self, state: int, change: Arrays | None, checksum: str, eta: float, residuals: Residuals | None = None
    ) -> None:
        """Set the model's state at the start of round `state`; `change` leads there from the round before.

        None means the first state of all, which clients can only receive as a whole model. A change without arrays
        means that the round brought no update. `eta` is the learning rate with which clients apply the change.
        `residuals` are what clients had not sent in this state; a client gets its own with the whole model.
        """
        self._state, self._checksum, self._eta = state, checksum, eta
        self._change = None if change is None else Packed.of(change)
        self._model, self._residuals = None, residuals or {}

    def open(
        self, kind: JobKind, round_: int, k: int, now: float, clients: Collection[int] | None = None
    ) -> list[Outgoing]:
        """Open a new job for these clients, by default for all, and return the messages that tell all ready clients.

        The others are told to follow: they take the change of the model, so that they need no whole model later.
        """
        asked = frozenset(range(self.terms.n_clients) if clients is None else clients)
        self.job, self._last_round = Job(kind, round_, k, asked), round_
        return [out for session in self.ready() for out in self._tell(session, now)]

    def close(self) -> Job:
        """Close the open job and return it with its answers."""
        assert self.job is not None
        job, self.job = self.job, None
        return job

    def transmit(self, clients: Collection[int], round_: int, burst: Mapping[str, float]) -> list[Outgoing]:
        """Tell these clients to hand a part of this round's payload to their radios."""
        sessions = [self.by_client[client] for client in clients if client in self.by_client]
        return [self._send(session, "transmit", burst, round_) for session in sessions]

    def ready(self) -> list[Session]:
        """Return the sessions of all clients that are ready to work."""
        return [session for session in self.sessions.values() if session.state == "ready"]

    def waiting_for(self, now: float) -> list[int]:
        """Return the present clients that are asked, have not answered and are not silent for too long."""
        due = self.job.due if self.job else frozenset()
        return [
            session.client
            for session in self.ready()
            if session.client in due and now - session.heard <= self.terms.silent_seconds
        ]

    def beats(self) -> list[Outgoing]:
        """Return a heartbeat for every client. It is a probe too: sending over a lost connection fails at once."""
        return [self.beat(session) for session in self.sessions.values()]

    def beat(self, session: Session) -> Outgoing:
        """Return a heartbeat for one client."""
        return self._send(session, "beat")

    def forgive(self, seconds: float) -> None:
        """Do not count these seconds as silence of the clients, as the server did not listen."""
        for session in self.sessions.values():
            session.heard += seconds

    def gone(self, identity: bytes) -> None:
        """Drop the session of a lost connection."""
        session = self.sessions.get(identity)
        if session is not None:
            _log.info("client %d is gone", session.client)
            self._drop(session)

    def stop(self, reason: str) -> list[Outgoing]:
        """End the run: from now on every client is told so, whatever it asks."""
        self.stopped = reason
        return [self._send(session, "stop", {"reason": reason}) for session in self.sessions.values()]

    def snapshot(self, now: float) -> list[dict[str, Any]]:
        """Return the state of all clients of the run for display."""
        return [self._describe(client, now) for client in range(self.terms.n_clients)]

    def _describe(self, client: int, now: float) -> dict[str, Any]:
        session = self.by_client.get(client)
        if session is None:
            return {"id": client, "state": "absent", "late": 0, "seconds": None}
        state: str = session.state
        if now - session.heard > self.terms.silent_seconds:
            state = "silent"
        elif state == "ready" and self.job is not None and client in self.job.clients:
            state = "answered" if client in self.job.answers else "working"
        return {"id": client, "state": state, "late": session.late, "seconds": session.seconds}

    # Messages

    def handle(self, identity: bytes, user: str | None, frames: Sequence[Frame], now: float) -> list[Outgoing]:
        """Handle one message of a connection, and return the messages to send in reply."""
        peer = user or identity.hex()
        if self._strikes.of(peer) >= self.terms.cut_off_after:
            self.counts["after cut off"] += 1
            return []
        try:
            message = unpack(frames, self.terms.max_bytes)
            if message.type == "join":
                return self._on_join(identity, user, message, now)
            return self._on_message(identity, message, now)
        except WireError as error:
            return self._strike(identity, peer, str(error))

    def _strike(self, identity: bytes, peer: str, why: str) -> list[Outgoing]:
        session = self.sessions.get(identity)
        name = f"client {session.client}" if session else f"connection {peer[:16]}"
        strikes = self._strikes.add(peer)
        self.counts["bad"] += 1
        _log.warning("dropped a message of %s: %s", name, why)
        if strikes < self.terms.cut_off_after:
            return []
        _log.warning("%s is cut off after %d bad messages", name, strikes)
        self.counts["cut off"] += 1
        if session is not None:
            self._drop(session)
        return [self._reply(identity, "refused", {"reason": f"cut off after {strikes} bad messages"})]

    def _on_message(self, identity: bytes, message: Message, now: float) -> list[Outgoing]:
        handler = self._handlers.get(message.type)
        if handler is None:
            raise WireError(f"there is no message of type {message.type!r}")
        session = self.sessions.get(identity)
        if session is None:
            # The client joined before the server or the connection failed; ask it to introduce itself again.
            self.counts["unknown"] += 1
            return [self._reply(identity, "rejoin")] if self.stopped is None else self._farewell(identity)
        self._check_order(session, message)
        session.received, session.heard = message.sequence, now
        if self.stopped is not None and message.type != "leave":
            return [self._send(session, "stop", {"reason": self.stopped})]
        return handler(session, message, now)

    def _check_order(self, session: Session, message: Message) -> None:
        if message.sender != session.client:
            raise WireError(f"it is in the name of client {message.sender}")
        if message.sequence <= session.received:
            raise WireError(f"number {message.sequence} after {session.received}: replayed or out of order")

    def _on_join(self, identity: bytes, user: str | None, message: Message, now: float) -> list[Outgoing]:
        client, instance = message.sender, message.text("instance", INSTANCE_CHARS)
        config_hash = message.text("config_hash", HASH_CHARS)
        own = self.sessions.get(identity)
        if own is not None:
            self._check_order(own, message)
        if self.stopped is not None:
            return self._farewell(identity)
        why = self._why_not(client, user, instance, config_hash, identity, now)
        if why is not None:
            self.counts["refused"] += 1
            _log.warning("refused: %s", why)
            return [self._reply(identity, "refused", {"reason": why})]
        earlier = self.by_client.get(client)
        if earlier is not None:
            self._drop(earlier)
        session = Session(identity, client, instance, now, message.sequence)
        if earlier is not None and earlier.identity == identity:
            session.sent = earlier.sent
        self.sessions[identity] = self.by_client[client] = session
        return [self._send(session, "welcome", self.terms.welcome())]

    def _why_not(
        self, client: int, user: str | None, instance: str, config_hash: str, identity: bytes, now: float
    ) -> str | None:
        """Return why a client cannot join, as a sentence; None if it can."""
        terms = self.terms
        if not 0 <= client < terms.n_clients:
            return f"client {client}: this run has the clients 0 to {terms.n_clients - 1}"
        if terms.admitted is not None and terms.admitted.get(user or "") != client:
            return f"client {client}: this key is admitted for another client"
        if config_hash and config_hash != terms.config_hash:
            return f"client {client} has another config ({config_hash}) than this run ({terms.config_hash})"
        other = self.by_client.get(client)
        if other is None or other.identity == identity or other.instance == instance:
            return None
        if now - other.heard > terms.silent_seconds or not self._is_reachable(other.identity):
            return None
        return f"client {client} is here already; give each client an --id of its own"

    def _on_ready(self, session: Session, message: Message, now: float) -> list[Outgoing]:
        terms, d = self.terms, message.whole("d", 0, 2**62)
        fingerprint = message.text("fingerprint", HASH_CHARS)
        have, checksum = message.whole("have", NO_ROUND, 2**62), message.text("checksum", HASH_CHARS)
        why = None
        if d != terms.d:
            why = f"client {session.client} has a model of {d} parameters, but this run's model has {terms.d}"
        elif fingerprint != terms.fingerprint:
            why = f"client {session.client} has other data, another split or other first weights than the server"
        if why is not None:
            self.counts["refused"] += 1
            _log.warning("refused: %s", why)
            self._drop(session)
            return [self._send(session, "refused", {"reason": why})]
        session.state = "ready"
        session.model_state = have if have == self._state and checksum == self._checksum else NO_ROUND
        return self._tell(session, now)

    def _on_done(self, session: Session, message: Message, _now: float) -> list[Outgoing]:
        job = self._answered_job(session, message, "train")
        if job is None:
            return []
        loss, seconds, sent = message.number("loss"), message.amount("seconds"), message.flag("sent")
        payload, levels = None, None
        if sent and self.terms.payload_to != "server" and self.terms.scheme.scaled:
            levels = message.amount("rms", MOST_LEVEL), message.amount("peak", MOST_LEVEL)
        if sent and self.terms.payload_to != "radio":
            payload = self._payload(message, job.k)
        elif message.arrays:
            raise WireError("done: there is an array, but none was expected")
        self._take(session, job, ClientAnswer(session.client, seconds, loss, sent, payload, levels=levels))
        return []

    def _payload(self, message: Message, k: int) -> NDArray[Any]:
        """Return the payload after the scheme has checked it, so that a client can send allowed values only."""
        scheme = self.terms.scheme
        try:
            return scheme.check(message.array("payload", scheme.dtype.name, k))
        except ValueError as error:
            raise WireError(f"done: {error}") from None

    def _on_arrays(self, kind: JobKind, session: Session, message: Message, _now: float) -> list[Outgoing]:
        job = self._answered_job(session, message, kind)
        if job is None:
            return []
        specs = self.terms.arrays_of(kind)
        if message.arrays.keys() != specs.keys():
            raise WireError(f"{message.type}: the arrays must be those of the model")
        arrays = {name: message.array(name, dtype, *shape) for name, (dtype, shape) in specs.items()}
        self._take(session, job, ClientAnswer(session.client, message.amount("seconds"), arrays=arrays))
        return []

    def _answered_job(self, session: Session, message: Message, kind: JobKind) -> Job | None:
        """Return the job that this message answers; None if the job is over or was answered before."""
        job = self.job
        if message.round > self._last_round:
            raise WireError(f"{message.type}: round {message.round} was not asked for yet")
        if job is None or (job.kind, job.round) != (kind, message.round):
            self.counts["late"] += 1
            session.late += 1
            return None
        if session.client not in job.clients:
            raise WireError(f"{message.type}: client {session.client} was not asked in round {message.round}")
        if session.client in job.answers:
            self.counts["repeated"] += 1
            return None
        return job

    def _take(self, session: Session, job: Job, answer: ClientAnswer) -> None:
        job.answers[session.client] = answer
        session.answered, session.seconds = job.round, answer.seconds

    def _on_heartbeat(self, session: Session, message: Message, now: float) -> list[Outgoing]:
        """Note a heartbeat; if it shows that the client lacks what it was sent, send that again."""
        have, busy = message.whole("have", NO_ROUND, 2**62), message.text("busy", HASH_CHARS)
        job = self.job
        if session.state != "ready" or job is None or session.client in job.answers or busy == job.title:
            return []
        if session.client not in job.clients and have == self._state:
            return []  # the client follows, and that is all that it is asked for
        if now - session.told <= 2 * self.terms.heartbeat_seconds:
            return []  # the client may have sent the heartbeat before the job arrived
        session.model_state = have
        self.counts["sent again"] += 1
        return self._tell(session, now)

    def _on_resync(self, session: Session, _message: Message, now: float) -> list[Outgoing]:
        """Send the whole model again, as the client's checksum differs or it missed a change."""
        if session.state != "ready":
            return []
        session.model_state = NO_ROUND
        return self._tell(session, now)

    def _on_leave(self, session: Session, _message: Message, _now: float) -> list[Outgoing]:
        _log.info("client %d leaves", session.client)
        self._drop(session)
        return []

    # Sending

    def _tell(self, session: Session, now: float) -> list[Outgoing]:
        """Return messages with the open job and the part of the model that this client lacks."""
        outgoing, arrays = [], NOTHING
        if session.model_state != self._state:
            if session.model_state == self._state - 1 and self._change is not None and self.job is not None:
                arrays = self._change
            elif now - session.modelled > 2 * self.terms.heartbeat_seconds:  # otherwise the model is on its way
                outgoing.append(self._send_model(session, now))
        if self.job is not None:
            kind = self.job.kind if session.client in self.job.clients else FOLLOW
            body = {"kind": kind, "state": self._state, "checksum": self._checksum, "eta": self._eta}
            outgoing.append(self._send(session, "work", body, self.job.round, arrays))
            session.model_state, session.told = self._state, now
        return outgoing

    def _send_model(self, session: Session, now: float) -> Outgoing:
        if self._model is None:
            self._model = Packed.of(self._whole_model())
        self.counts["whole models"] += 1
        session.model_state, session.modelled = self._state, now
        body = {"mode": self.terms.scheme.name, "checksum": self._checksum, **asdict(self.terms.optimizer)}
        own = self._residuals.get(session.client)
        arrays = self._model if own is None else self._model + Packed.of({"residual": own})
        return self._send(session, "model", body, self._state, arrays)

    def _send(
        self,
        session: Session,
        kind: str,
        body: Mapping[str, Any] | None = None,
        round_: int = NO_ROUND,
        arrays: Packed = NOTHING,
    ) -> Outgoing:
        session.sent += 1
        header = pack_header(Message(kind, SERVER, round_, session.sent, body or {}), arrays.declared)
        return Outgoing(session.identity, [header, *arrays.frames], kind)

    def _reply(self, identity: bytes, kind: str, body: Mapping[str, Any] | None = None) -> Outgoing:
        """Make a message to a connection without a session."""
        return Outgoing(identity, [pack_header(Message(kind, SERVER, NO_ROUND, 0, body or {}), [])], kind)

    def _farewell(self, identity: bytes) -> list[Outgoing]:
        return [self._reply(identity, "stop", {"reason": self.stopped})]

    def _drop(self, session: Session) -> None:
        self.sessions.pop(session.identity, None)
        if self.by_client.get(session.client) is session:
            del self.by_client[session.client]
