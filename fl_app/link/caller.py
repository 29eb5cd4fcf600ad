# SPDX-License-Identifier: GPL-3.0-or-later
"""Implement a client's side of the protocol without a socket: messages in, messages and work out.

A client joins, says when it is prepared, follows the model by its changes, and answers requests. It sends heartbeats,
and introduces itself again if the server no longer knows it. Lost messages are requested or sent again, so that no
single message is essential.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl_app.link.downlink import Replica
from fl_app.link.terms import ANSWERS, FOLLOW, HASH_CHARS, JOB_KINDS, PAYLOAD_TO, JobKind, PayloadTo
from fl_app.link.wire import MAX_HEADER_BYTES, NO_ROUND, SERVER, Frame, Message, WireError, pack, unpack
from oac_blocks.dsp.waveform.schemes import Scheme

_log = logging.getLogger(__name__)

Phase = Literal["joining", "preparing", "prepared", "ready", "refused", "stopped"]

FIRST_HEARTBEAT_SECONDS = 0.25  # seconds between heartbeats until the welcome gives the interval
BYTES_BEFORE_WELCOME = 1_000_000
# A whole model takes up to 20 and a bit: w, g, the mean and the mean square of Adam, the residual, the mask.
BYTES_PER_PARAMETER = 24
REASON_CHARS = 4096
MOST_PARAMETERS = 2**34


@dataclass(frozen=True)
class Welcome:
    """Hold what the server tells each client first."""

    config: str  # TOML
    config_hash: str
    fingerprint: str
    d: int
    payload_to: PayloadTo
    heartbeat_seconds: float
    silent_seconds: float


@dataclass(frozen=True, eq=False)
class Work:
    """Describe the work that the server asks of a client, and the model for it."""

    kind: JobKind
    round: int
    run: str  # hash of the config
    checksum: str  # checksum of the model: the same work twice has the same answer
    w: NDArray[np.float32]
    selected: NDArray[np.int64]
    residual: NDArray[np.float32] | None = None  # what the client had not sent then, if the server had to tell it

    @property
    def key(self) -> tuple[str, int, str, str]:
        return (self.kind, self.round, self.run, self.checksum)


@dataclass(frozen=True, eq=False)
class Result:
    """Hold the answer to a piece of work in the form in which it goes to the server."""

    body: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    kept: NDArray[Any] | None = None  # the payload, if it goes by radio
    scheme: Scheme | None = None  # scheme of the kept payload; None if the radio gets it as it is


@dataclass(frozen=True, eq=False)
class RadioBurst:
    """Hold votes, or entries in units of a vote's energy, for one of the radios' rounds, which count by themselves."""

    round: int
    run: int
    votes: NDArray[Any]


class Caller:
    """Follow the protocol for one client of one run."""

    def __init__(
        self, client: int, config_hash: str = "", hand_to_radio: Callable[[RadioBurst], None] | None = None
    ) -> None:
        self.client, self._config_hash, self._hand_to_radio = client, config_hash, hand_to_radio
        self.phase: Phase = "joining"
        self.reason = ""  # the reason why the client was refused or stopped
        self.welcome: Welcome | None = None
        self.heard: float | None = None  # time of the server's last message
        self.bad_messages = 0
        self._instance = secrets.token_hex(16)
        self._sequence, self._received = 0, 0
        self._prepared: tuple[int, str] | None = None  # d and fingerprint, once the data is loaded
        self._replica: Replica | None = None
        self._state, self._checksum = NO_ROUND, ""
        self._wanted: Work | None = None
        self._running: Work | None = None
        self._answer: tuple[tuple[str, int, str, str], Result] | None = None
        self._resync_at = float("-inf")
        self._residual: tuple[int, NDArray[np.float32]] | None = None  # from the server, and its round

    @property
    def heartbeat_seconds(self) -> float:
        return self.welcome.heartbeat_seconds if self.welcome else FIRST_HEARTBEAT_SECONDS

    @property
    def has_radio(self) -> bool:
        return self._hand_to_radio is not None

    @property
    def is_over(self) -> bool:
        return self.phase in ("refused", "stopped")

    # Actions of the client

    def tick(self) -> list[list[Frame]]:
        """Return the messages that are due by the clock. Call this once in every heartbeat interval."""
        if self.is_over:
            return []
        if self.phase == "joining":
            return [self._join()]
        if self.phase == "prepared":
            return [self._ready()]
        busy = f"{self._running.kind} {self._running.round}" if self._running else ""
        return [self._pack("heartbeat", {"have": self._state, "busy": busy})]

    def prepared(self, d: int, fingerprint: str) -> list[list[Frame]]:
        """Note that data and model are loaded, and return the messages to send."""
        self._prepared = (d, fingerprint)
        if self.phase != "preparing":
            return []
        self.phase = "prepared"
        return [self._ready()]

    def next_work(self) -> Work | None:
        """Return the work to begin now; None if there is none, or if some work is already running."""
        if self._wanted is None or self._running is not None or self._has_answer(self._wanted):
            return None
        self._running = self._wanted
        return self._running

    def finish(self, work: Work, result: Result) -> list[list[Frame]]:
        """Take the answer to a piece of work, and return it as a message if the server still asks for it."""
        self._running, self._answer = None, (work.key, result)
        return self._send_answer()

    def leave(self) -> list[list[Frame]]:
        """Return the message to send before the client leaves."""
        return [] if self.is_over else [self._pack("leave")]

    # Messages

    def handle(self, frames: list[Frame], now: float) -> list[list[Frame]]:
        """Handle one message of the server, and return the messages to send in reply."""
        try:
            message = unpack(frames, self._max_bytes())
            if message.sender != SERVER:
                raise WireError("it is not from the server")
            return self._on_message(message, now)
        except WireError as error:
            self.bad_messages += 1
            _log.warning("dropped a message of the server: %s", error)
            return []

    def _max_bytes(self) -> int:
        return BYTES_BEFORE_WELCOME + (BYTES_PER_PARAMETER * self.welcome.d if self.welcome else 0)

    def _on_message(self, message: Message, now: float) -> list[list[Frame]]:
        if self.is_over:
            return []
        if message.type == "welcome":
            self.heard = now
            return self._on_welcome(message)
        if message.sequence:  # 0 comes from a server that does not know this client
            if message.sequence <= self._received:
                raise WireError(f"number {message.sequence} after {self._received}: replayed or out of order")
            self._received = message.sequence
        self.heard = now
        if message.type == "rejoin":
            return self._on_rejoin()
        if message.type == "refused":
            self.phase, self.reason = "refused", message.text("reason", REASON_CHARS)
            return []
        if message.type == "stop":
            self.reason = message.text("reason", REASON_CHARS)
            frames = self.leave()
            self.phase = "stopped"
            return frames
        if message.type == "model":
            return self._on_model(message)
        if message.type == "work":
            return self._on_work(message, now)
        if message.type == "transmit":
            return self._on_transmit(message)
        if message.type != "beat":
            raise WireError(f"there is no message of type {message.type!r}")
        return []

    def _on_welcome(self, message: Message) -> list[list[Frame]]:
        if self.phase != "joining":
            return []  # the second answer to a join that was sent twice
        welcome = Welcome(
            config=message.text("config", MAX_HEADER_BYTES),
            config_hash=message.text("config_hash", HASH_CHARS),
            fingerprint=message.text("fingerprint", HASH_CHARS),
            d=message.whole("d", 1, MOST_PARAMETERS),
            payload_to=_payload_to(message),
            heartbeat_seconds=max(0.01, min(message.amount("heartbeat_seconds"), 60.0)),
            silent_seconds=message.amount("silent_seconds"),
        )
        self._received = message.sequence
        before = self.welcome
        self.welcome, self.phase = welcome, "preparing"
        if before is None or (before.config_hash, before.fingerprint) != (welcome.config_hash, welcome.fingerprint):
            self._prepared = self._replica = None  # this is another run, so the present data and model are of no use
            self._state, self._checksum = NO_ROUND, ""
        if self._prepared is None:
            return []
        self.phase = "prepared"
        return [self._ready()]

    def _on_rejoin(self) -> list[list[Frame]]:
        if self.phase == "joining":
            return []  # the client is joining already
        self.phase, self._wanted = "joining", None
        return [self._join()]

    def _on_model(self, message: Message) -> list[list[Frame]]:
        self._check_phase(message)
        assert self.welcome is not None
        replica = Replica.from_message(message, self.welcome.d)
        checksum = replica.checksum()
        if checksum != message.text("checksum", HASH_CHARS):
            raise WireError("model: its checksum does not match")
        self._replica, self._state, self._checksum = replica, message.round, checksum
        self._residual = None
        if "residual" in message.arrays:
            self._residual = message.round, message.array("residual", "float32", replica.d)
        self.phase = "ready"
        return []

    def _on_work(self, message: Message, now: float) -> list[list[Frame]]:
        self._check_phase(message)
        kind, state = message.text("kind", 16), message.whole("state", 0, 2**62)
        checksum = message.text("checksum", HASH_CHARS)
        job = next((known for known in JOB_KINDS if known == kind), None)
        if job is None and kind != FOLLOW:
            raise WireError(f"work: there is no kind {kind!r}")
        if not self._follow(message, state, checksum):
            return self._resync(now)
        self.phase = "ready"
        if job is None:
            self._wanted = None  # whatever was asked before is over
            return []
        assert self._replica is not None
        assert self.welcome is not None
        run = self.welcome.config_hash
        given, residual = self._residual or (NO_ROUND, None)
        residual = residual if given == message.round else None
        self._wanted = Work(job, message.round, run, checksum, self._replica.w, self._replica.selected, residual)
        return self._send_answer()  # in case the answer sent before was lost

    def _on_transmit(self, message: Message) -> list[list[Frame]]:
        """Hand a part of the kept payload to the radio; do nothing if it is not kept, as after a restart."""
        first, stop = message.whole("first", 0, MOST_PARAMETERS), message.whole("stop", 0, MOST_PARAMETERS)
        radio_round, run = message.whole("radio_round", 0, 2**62), message.whole("run", 0, 2**62)
        scale = message.amount("scale") if "scale" in message.body else 1.0
        key, result = self._answer or (("", NO_ROUND, "", ""), Result({}))
        if key[:2] != ("train", message.round) or result.kept is None or self._hand_to_radio is None:
            return []
        if not first < stop <= result.kept.size:
            raise WireError(f"transmit: entries must lie in 0 to {result.kept.size}, not {first} to {stop}")
        part = result.kept[first:stop]
        votes = part if result.scheme is None else result.scheme.signed_energies(part, scale)
        self._hand_to_radio(RadioBurst(radio_round, run, votes))
        return []

    def _check_phase(self, message: Message) -> None:
        if self.phase not in ("prepared", "ready"):
            raise WireError(f"{message.type}: it came too early, in the phase {self.phase!r}")

    def _follow(self, message: Message, state: int, checksum: str) -> bool:
        """Bring the copy of the model to this state; return False if the message does not suffice for that."""
        if self._replica is None:
            return False
        if self._checksum != checksum:
            if self._state != state - 1 or "mask" not in message.arrays:
                return False
            self._replica.apply(message)
            self._checksum = self._replica.checksum()
        if self._checksum != checksum:
            self._replica, self._state, self._checksum = None, NO_ROUND, ""
            return False
        self._state = state
        return True

    def _resync(self, now: float) -> list[list[Frame]]:
        if now - self._resync_at <= self.heartbeat_seconds:
            return []
        self._resync_at = now
        return [self._pack("resync")]

    # Sending

    def _has_answer(self, work: Work) -> bool:
        return self._answer is not None and self._answer[0] == work.key

    def _send_answer(self) -> list[list[Frame]]:
        if self._wanted is None or self._answer is None or self._answer[0] != self._wanted.key:
            return []
        kind, result = ANSWERS[self._wanted.kind], self._answer[1]
        return [self._pack(kind, result.body, self._wanted.round, result.arrays)]

    def _join(self) -> list[Frame]:
        return self._pack("join", {"instance": self._instance, "config_hash": self._config_hash})

    def _ready(self) -> list[Frame]:
        assert self._prepared is not None
        d, fingerprint = self._prepared
        body = {"d": d, "fingerprint": fingerprint, "have": self._state, "checksum": self._checksum}
        return self._pack("ready", body)

    def _pack(
        self,
        kind: str,
        body: Mapping[str, Any] | None = None,
        round_: int = NO_ROUND,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> list[Frame]:
        self._sequence += 1
        return pack(Message(kind, self.client, round_, self._sequence, body or {}, arrays or {}))


def _payload_to(message: Message) -> PayloadTo:
    named = message.text("payload_to", 16)
    for known in PAYLOAD_TO:
        if named == known:
            return known
    raise WireError(f"welcome: payload_to must be one of {', '.join(PAYLOAD_TO)}, got {named!r}")
