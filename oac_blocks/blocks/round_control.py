# SPDX-License-Identifier: GPL-3.0-or-later
"""When may the trigger of a round be sent? When everybody who takes part is ready for it."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.blocks.support.message_order import take_waiting
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.receive.client_stream import MOST_VOTES
from oac_blocks.dsp.waveform.round_layout import KINDS
from oac_blocks.rounds.engine import EngineSettings, RoundEngine
from oac_blocks.rounds.events import (
    Action,
    Armed,
    AskForPayloads,
    Ballot,
    Broke,
    Complain,
    Event,
    Expect,
    Fire,
    Miss,
    Planned,
    WakeAt,
    Woken,
)
from oac_blocks.rounds.messages import listed

_PLAN, _STATUS, _BALLOT = pmt.intern("plan"), pmt.intern("status"), pmt.intern("ballot")
_EXPECT, _NEXT, _FIRE = pmt.intern("expect"), pmt.intern("next"), pmt.intern("fire")
_MISSED = pmt.intern("missed")
_MEASURED = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db")
_TIME_IS_UP = pmt.intern("time_is_up")  # a port of the block to itself: the timer runs in a thread of its own


class round_control(gr.basic_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Round control: a plan in, and the trigger's ``fire`` out once all clients are armed.

    ``oac_blocks.rounds.engine`` has the rules; this block turns messages into its events and its actions into messages.

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

    A client that is not armed ``arm_seconds`` after the plan is not waited for. With radios, a round that brings no
    arrivals ``deadline_seconds`` after its trigger is over. 0 waits for ever, which is right in lock step.
    """

    def __init__(
        self,
        clients: int = 2,
        rounds: int = 0,
        rounds_per_second: float = 0.0,
        deadline_seconds: float = 0.0,
        arm_seconds: float = 0.0,
    ) -> None:
        self._settings = EngineSettings(clients, rounds, rounds_per_second, deadline_seconds, arm_seconds)
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
        return self._engine.fired

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """Clients that are not armed for the coming round yet."""
        return self._engine.waiting_for

    @property
    def dropped(self) -> int:
        """Messages that could not be used."""
        return self._drops.count

    def set_rounds_per_second(self, rounds_per_second: float) -> None:
        """Set the most rounds in a second, from the next round on; 0 for no limit."""
        self._change(rounds_per_second=rounds_per_second)

    def set_deadline_seconds(self, deadline_seconds: float) -> None:
        """Set how long a round's arrivals may take, from the next trigger on; 0 for no limit."""
        self._change(deadline_seconds=deadline_seconds)

    def set_arm_seconds(self, arm_seconds: float) -> None:
        """Set how long clients may take to be armed, from the next plan on; 0 for no limit."""
        self._change(arm_seconds=arm_seconds)

    def _change(self, **changes: float) -> None:
        self._settings = self._engine.settings = dataclasses.replace(self._settings, **changes)  # type: ignore[arg-type]

    def start(self) -> bool:
        self._begin()
        return True

    def stop(self) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        return True

    def _begin(self) -> None:
        self._engine = RoundEngine(self._settings)
        self._timer: threading.Timer | None = None

    def _on_plan(self, message: Any) -> None:
        try:
            plan = _notice(message)
            kind = plan.get("kind")
            require(kind in KINDS, "kind of a plan", repr(kind), f"one of {', '.join(KINDS)}")
            number = integer("round of a plan", plan.get("round", -1), 0)
            run = integer("run of a plan", plan.get("run", 0), 0)
        except Exception as error:  # one that leaves a handler is lost, and the exit code stays 0
            self._drops.add(str(error))
            return
        self._take(Planned(number, "acquire" if kind == "acquire" else "payload", run))

    def _on_status(self, message: Any) -> None:
        take_waiting(self, "ballot", self._on_ballot)  # clients may be armed because of it
        try:
            status = _notice(message)
            event, number = status["event"], integer("round", status["round"], 0)
            client = integer("client", status["client"], 0, self._settings.clients - 1)
            votes = integer("votes", status["votes"], 1, MOST_VOTES) if "votes" in status else None
            run = integer("run", status["run"], 0) if "run" in status else None
            require(isinstance(event, str), "event", type(event).__name__, "a word")
        except Exception as error:  # what a stranger sends must not end the flowgraph
            self._drops.add(f"a status: {error!r}")
            return
        if event == "armed":
            self._take(Armed(client, number, votes, run))
        elif event == "gap":
            self._take(Broke(client))

    def _on_ballot(self, message: Any) -> None:
        try:
            pdu, about = pdus.read(message, np.int8), _notice(message)
            if isinstance(pdu, str):
                raise ValueError(pdu)
            count, wanted = len(pdu.data), self._settings.clients
            require(count == wanted, "a ballot", f"{count} elements", f"{wanted}, one for each client")
            number, votes = integer("round", about["round"], 0), integer("votes", about["votes"], 1, MOST_VOTES)
            run = integer("run", about["run"], 0) if "run" in about else None
        except Exception as error:
            self._drops.add(f"a ballot: {error!r}")
            return
        self._take(Ballot(number, votes, frozenset(np.flatnonzero(pdu.data).tolist()), run))

    def _on_time_is_up(self, _message: Any) -> None:
        self._take(Woken())

    def _take(self, event: Event) -> None:
        now = time.monotonic()
        for action in self._engine.take(event, now):
            self._do(action, now)

    def _do(self, action: Action, now: float) -> None:
        match action:
            case AskForPayloads():
                about = {"round": action.round, "run": action.run, "seconds": action.seconds}
                self.message_port_pub(_NEXT, pdus.notice(about))
            case Expect():
                expected: dict[str, Any] = {"round": action.round, "kind": action.kind, "run": action.run}
                expected |= {"voters": len(action.voting), "voting": listed(action.voting)}
                expected |= {} if action.votes is None else {"votes": action.votes}
                self.message_port_pub(_EXPECT, pdus.notice(expected))
            case Fire():
                self.message_port_pub(_FIRE, pdus.notice({"round": action.round}))
            case Miss():
                nothing = pdus.float64_vector([float("nan")] * self._settings.clients)
                missed = {"round": action.round, "kind": action.kind, "trigger_sample": float("nan")}
                self.message_port_pub(_MISSED, pdus.notice(missed | dict.fromkeys(_MEASURED, nothing)))
            case Complain():
                self._drops.add(action.reason)
            case WakeAt():
                self._wake_in(action.time - now)

    def _wake_in(self, seconds: float) -> None:
        """Start a timer. A handler must not sleep, for a flowgraph cannot stop while one does."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds < float("inf"):
            me = self.to_basic_block()
            self._timer = threading.Timer(max(seconds, 0.0), me._post, (_TIME_IS_UP, pmt.PMT_T))
            self._timer.daemon = True
            self._timer.start()


def _notice(message: Any) -> dict[str, Any]:
    about = pdus.read_notice(message)
    if isinstance(about, str):
        raise ValueError(about)
    return about
