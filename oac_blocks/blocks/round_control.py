# SPDX-License-Identifier: GPL-3.0-or-later
"""When may the trigger of a round be sent? When everybody who takes part is ready for it."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.blocks.support.message_order import take_waiting
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive.client_stream import MOST_VOTES
from oac_blocks.dsp.waveform.round_layout import KINDS
from oac_blocks.rounds.messages import listed

_PLAN, _STATUS, _BALLOT = pmt.intern("plan"), pmt.intern("status"), pmt.intern("ballot")
_EXPECT, _NEXT, _FIRE = pmt.intern("expect"), pmt.intern("next"), pmt.intern("fire")
_MISSED = pmt.intern("missed")
_MEASURED = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db")
_TIME_IS_UP = pmt.intern("time_is_up")  # to itself: the timer runs in a thread of its own


class _Ballot(NamedTuple):
    """What an application has said of a round: how many votes, and who takes part."""

    round: int
    votes: int
    clients: frozenset[int]


class round_control(gr.basic_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Round control: a plan in, and the trigger's ``fire`` out once all clients are armed.

    Messages (docs/rounds.md has them all):

    - ``plan`` in, from the calibrator: the coming ``round``, its ``kind`` and the ``run``;
    - ``next`` out, to the sources of votes, for a payload round: the ``round`` that votes are wanted for, its ``run``,
      and ``seconds``, how long it waits for them (0 for ever);
    - ``status`` in, from all clients;
    - ``ballot`` in, from an application: how many votes the round has, and who takes part;
    - ``expect`` out, to the server receiver: ``round``, ``kind``, ``run``, how many ``votes`` it has, how many
      ``voters``: clients that take part and have theirs ready; and which they are, ``voting``: "0, 2";
    - ``fire`` out, to the trigger source in mode ``lock_step`` or ``message``: the ``round``.

    - ``missed`` out, to the calibrator's ``arrivals``: a round in which the server did not hear even its own trigger.

    A client whose stream broke since the last round is not waited for. Rounds do not begin faster than
    ``rounds_per_second``; 0 is no limit. After ``rounds`` rounds nothing is fired any more; 0 is endless.

    Who is not armed ``arm_seconds`` after the plan is not waited for. With radios, a round that brings no arrivals
    ``deadline_seconds`` after its trigger is over. 0 waits for ever, which is right in lock step.
    """

    def __init__(
        self,
        clients: int = 2,
        rounds: int = 0,
        rounds_per_second: float = 0.0,
        deadline_seconds: float = 0.0,
        arm_seconds: float = 0.0,
    ) -> None:
        self._clients = integer("clients", clients, 1)
        self._rounds = integer("rounds", rounds, 0)
        self.set_rounds_per_second(rounds_per_second)
        self.set_deadline_seconds(deadline_seconds)
        self.set_arm_seconds(arm_seconds)
        gr.basic_block.__init__(self, name="OAC Round Control", in_sig=None, out_sig=None)
        self._drops = Drops(self.logger)
        self._begin()
        for port, handler in (
            (_PLAN, self._on_plan),
            (_STATUS, self._on_status),
            (_BALLOT, self._on_ballot),
            (_TIME_IS_UP, self._on_time_is_up),
        ):
            self.message_port_register_in(port)
            self.set_msg_handler(port, handler)
        for port in (_EXPECT, _NEXT, _FIRE, _MISSED):
            self.message_port_register_out(port)

    @property
    def fired(self) -> int:
        """Rounds since the flowgraph was started."""
        return self._fired

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """Clients that are not armed for the coming round yet."""
        return () if self._round is None else tuple(c for c in range(self._clients) if not self._is_ready(c))

    @property
    def dropped(self) -> int:
        """Messages that could not be used."""
        return self._drops.count

    def set_rounds_per_second(self, rounds_per_second: float) -> None:
        """The most, from the next round on; 0 for no limit."""
        self._rounds_per_second = real("rounds_per_second", rounds_per_second, 0.0)

    def set_deadline_seconds(self, deadline_seconds: float) -> None:
        """Of a round's arrivals, from the next trigger on; 0 for none."""
        self._deadline_seconds = real("deadline_seconds", deadline_seconds, 0.0)

    def set_arm_seconds(self, arm_seconds: float) -> None:
        """How long clients may take to be armed, from the next plan on; 0 for ever."""
        self._arm_seconds = real("arm_seconds", arm_seconds, 0.0)

    def start(self) -> bool:
        self._begin()
        return True

    def stop(self) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        return True

    def _begin(self) -> None:
        self._round: int | None = None
        self._kind, self._run = "payload", 0
        # Messages of two ports may overtake each other, so a client may be armed before the plan is here.
        self._armed: dict[int, int] = {}  # clients, and the round that each is armed for
        self._armed_votes: dict[int, int] = {}  # clients, and how many votes they are armed with
        self._ballot: _Ballot | None = None
        self._broken: set[int] = set()  # clients whose stream broke since the last round
        self._fired = 0
        self._last_fired = -1
        self._under_way: int | None = None  # the round that was fired and has not ended
        self._timer: threading.Timer | None = None
        self._planned_seconds = self._fired_seconds = float("-inf")

    def _on_plan(self, message: Any) -> None:
        try:
            plan = pdus.read_notice(message)
            if isinstance(plan, str):
                raise ValueError(plan)
            kind = plan.get("kind")
            require(kind in KINDS, "kind of a plan", repr(kind), f"one of {', '.join(KINDS)}")
            number = integer("round of a plan", plan.get("round", -1), 0)
            run = integer("run of a plan", plan.get("run", 0), 0)
        except Exception as error:  # one that leaves a handler is lost, and the exit code stays 0
            self._drops.add(str(error))
            return
        self._under_way = None
        if number <= self._last_fired or (self._rounds and self._fired == self._rounds):
            return  # said twice, or the end
        self._round, self._kind, self._run = number, str(kind), run
        self._planned_seconds = time.monotonic()
        if kind == "payload":
            self.message_port_pub(_NEXT, pdus.notice({"round": number, "run": run, "seconds": self._arm_seconds}))
        self._go_on()

    def _on_status(self, message: Any) -> None:
        take_waiting(self, "ballot", self._on_ballot)  # clients may be armed because of it
        try:
            status = pdus.read_notice(message)
            if isinstance(status, str):
                raise ValueError(status)
            event, number = status["event"], integer("round", status["round"], 0)
            client = integer("client", status["client"], 0, self._clients - 1)
            votes = integer("votes", status["votes"], 1, MOST_VOTES) if "votes" in status else None
            require(isinstance(event, str), "event", type(event).__name__, "a word")
        except Exception as error:  # what a stranger sends must not end the flowgraph
            self._drops.add(f"a status: {error!r}")
            return
        if event == "armed":
            self._arm(client, number, votes)
        elif event == "gap":
            self._armed.pop(client, None)
            self._broken.add(client)
        self._go_on()

    def _arm(self, client: int, number: int, votes: int | None) -> None:
        self._armed[client] = number
        self._broken.discard(client)
        self._armed_votes.pop(client, None)
        if votes is not None:
            self._armed_votes[client] = votes

    def _on_ballot(self, message: Any) -> None:
        try:
            pdu, about = pdus.read(message, np.int8), pdus.read_notice(message)
            if isinstance(pdu, str) or isinstance(about, str):
                raise ValueError(pdu if isinstance(pdu, str) else about)
            count = len(pdu.data)
            require(count == self._clients, "a ballot", f"{count} elements", f"{self._clients}, one for each client")
            number, votes = integer("round", about["round"], 0), integer("votes", about["votes"], 1, MOST_VOTES)
            run = integer("run", about.get("run", self._run), 0)
            require(run == self._run, "run of a ballot", run, f"the present one, {self._run}")
        except Exception as error:
            self._drops.add(f"a ballot: {error!r}")
            return
        self._ballot = _Ballot(number, votes, frozenset(np.flatnonzero(pdu.data).tolist()))

    def _is_ready(self, client: int) -> bool:
        return client in self._broken or self._armed.get(client) == self._round

    def _go_on(self) -> None:
        """Do what is due, and be woken when the next thing may be."""
        now, deadline = time.monotonic(), self._deadline_seconds
        due = float("inf")
        if self._round is not None:
            latest = self._planned_seconds + self._arm_seconds if self._arm_seconds else float("inf")
            earliest = self._fired_seconds + (1 / self._rounds_per_second if self._rounds_per_second else 0.0)
            due = max(earliest, min(latest, now if not self.waiting_for else float("inf")))
            if due <= now:
                self._fire(self._round, now)
                due = now + deadline if deadline else float("inf")
        elif self._under_way is not None and deadline:
            due = self._fired_seconds + deadline
            if due <= now:
                self._miss(self._under_way)
                due = float("inf")
        self._wake_in(due - now)

    def _fire(self, number: int, now: float) -> None:
        self._round, self._under_way, self._last_fired = None, number, number
        self._broken.clear()
        self._fired += 1
        self._fired_seconds = now
        expected = {"round": number, "kind": self._kind, "run": self._run, **self._votes_of(number)}
        self.message_port_pub(_EXPECT, pdus.notice(expected))
        self.message_port_pub(_FIRE, pdus.notice({"round": number}))

    def _votes_of(self, number: int) -> dict[str, int | str]:
        """How many votes the round has, if that is known, and how many clients have theirs ready."""
        ready = {client: votes for client, votes in self._armed_votes.items() if self._armed.get(client) == number}
        ballot = self._ballot
        if ballot is None or ballot.round != number:
            # Nobody said how many there are: the first client that is armed does, and all others must agree.
            ballot = _Ballot(number, next(iter(ready.values()), 0), frozenset(ready))
        for client, votes in ready.items():
            if votes != ballot.votes:
                self._drops.add(f"client {client} brings {votes} votes to round {number}, which has {ballot.votes}")
        voters = [client for client, votes in ready.items() if client in ballot.clients and votes == ballot.votes]
        return {"voters": len(voters), "voting": listed(voters), **({"votes": ballot.votes} if ballot.votes else {})}

    def _miss(self, number: int) -> None:
        self._under_way = None
        nothing = pdus.float64_vector([float("nan")] * self._clients)
        about = {"round": number, "kind": self._kind, "trigger_sample": float("nan")}
        self.message_port_pub(_MISSED, pdus.notice(about | dict.fromkeys(_MEASURED, nothing)))

    def _wake_in(self, seconds: float) -> None:
        """Not a sleep here: a flowgraph cannot stop while a handler sleeps."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds < float("inf"):
            me = self.to_basic_block()
            self._timer = threading.Timer(max(seconds, 0.0), me._post, (_TIME_IS_UP, pmt.PMT_T))
            self._timer.daemon = True
            self._timer.start()

    def _on_time_is_up(self, _message: Any) -> None:
        self._go_on()
