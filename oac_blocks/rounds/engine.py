# SPDX-License-Identifier: GPL-3.0-or-later
"""The round engine: when is a round fired, and when is it over?

A pure state machine. Events go in, actions come out, and time is an argument: nothing here waits, and nothing here
knows of threads, flowgraphs or radios. The transports around it are ``blocks.round_control`` (flowgraphs) and
``bench.threads.bench`` (threads).

    idle --Planned--> arming --(all clients are ready, or the arm timeout is over)--> under way
      ^                                                                                   |
      +-----------------------(Ended, the next Planned, or the deadline: Miss)------------+
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from oac_blocks.dsp.checks import integer, real
from oac_blocks.rounds.events import (
    Action,
    Armed,
    AskForPayloads,
    Ballot,
    Broke,
    Complain,
    Ended,
    Event,
    Expect,
    Fire,
    Miss,
    Planned,
    WakeAt,
)

Phase = Literal["idle", "arming", "under way"]


@dataclass(frozen=True)
class EngineSettings:
    """The rules of the rounds. All times are in seconds, or in any other unit that ``now`` is counted in, too.

    Parameters
    ----------
    clients : int
        Number of clients.
    rounds : int
        Number of rounds that are fired at most; 0 is no limit.
    rounds_per_second : float
        Triggers a second at most; 0 is no limit.
    deadline_seconds : float
        Time from a trigger until its round is given up as missed; 0 waits for ever, which is right in lock step.
    arm_seconds : float
        Time from a plan until clients that are not armed are no longer waited for; 0 waits for ever.
    """

    clients: int = 2
    rounds: int = 0
    rounds_per_second: float = 0.0
    deadline_seconds: float = 0.0
    arm_seconds: float = 0.0

    def __post_init__(self) -> None:
        integer("clients", self.clients, 1)
        integer("rounds", self.rounds, 0)
        real("rounds_per_second", self.rounds_per_second, 0.0)
        real("deadline_seconds", self.deadline_seconds, 0.0)
        real("arm_seconds", self.arm_seconds, 0.0)


class RoundEngine:
    """``settings`` may be replaced at any time. New times count from the next plan or trigger on."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._plan: Planned | None = None  # the round that is being armed
        self._under_way: Planned | None = None  # the round that was fired and is not over
        self._run: int | None = None
        self._last_planned = -1  # round of this run
        # A client may be armed before the plan is here: they come on two ways.
        self._armed: dict[int, Armed] = {}
        self._broken: set[int] = set()  # clients whose stream broke since the last trigger
        self._ballot: Ballot | None = None
        self._fired = 0
        self._arm_until = self._deadline = math.inf
        self._fired_at = -math.inf

    @property
    def fired(self) -> int:
        """Number of rounds that were fired."""
        return self._fired

    @property
    def phase(self) -> Phase:
        return "arming" if self._plan else "under way" if self._under_way else "idle"

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """Clients that are not ready for the coming round yet."""
        if self._plan is None:
            return ()
        return tuple(client for client in range(self.settings.clients) if not self._is_ready(client, self._plan))

    def take(self, event: Event, now: float) -> list[Action]:
        """Take an event at the time ``now`` and return what is to be done, in this order.

        The last action is always ``WakeAt``. ``now`` never goes back.
        """
        actions: list[Action] = []
        match event:
            case Planned():
                actions += self._take_plan(event, now)
            case Armed() if not self._is_over(event):
                self._armed[event.client] = event
                self._broken.discard(event.client)
            case Broke():
                self._armed.pop(event.client, None)
                self._broken.add(event.client)
            case Ballot():
                actions += self._take_ballot(event)
            case Ended() if self._under_way is not None and self._under_way.round == event.round:
                self._under_way = None
        return actions + self._go_on(now)

    def _take_plan(self, plan: Planned, now: float) -> list[Action]:
        if plan.run != self._run:
            self._run, self._last_planned = plan.run, -1
            self._ballot = None
        if plan.round <= self._last_planned:
            return []  # an old plan, or one that was said twice
        self._last_planned, self._under_way = plan.round, None
        if self.settings.rounds and self._fired >= self.settings.rounds:
            self._plan = None
            return []
        self._plan = plan
        self._arm_until = now + self.settings.arm_seconds if self.settings.arm_seconds else math.inf
        if plan.kind != "payload":
            return []
        return [AskForPayloads(plan.round, plan.run, self.settings.arm_seconds)]

    def _take_ballot(self, ballot: Ballot) -> list[Action]:
        if ballot.run is not None and ballot.run != self._run:
            return [Complain(f"run of a ballot must be the present one, {self._run}, got {ballot.run}")]
        self._ballot = ballot
        return []

    def _is_over(self, armed: Armed) -> bool:
        """Is this client armed for a round that is over? Then it shows nothing of the coming one."""
        return armed.run in (None, self._run) and armed.round < self._last_planned

    def _is_ready(self, client: int, plan: Planned) -> bool:
        return client in self._broken or (client in self._armed and _is_for(self._armed[client], plan))

    def _go_on(self, now: float) -> list[Action]:
        """Do what is due, and say when the next thing may be."""
        actions: list[Action] = []
        due = math.inf
        if self._plan is not None:
            pace = self.settings.rounds_per_second
            earliest = self._fired_at + (1 / pace if pace else 0.0)
            due = max(earliest, self._arm_until if self.waiting_for else now)
            if due <= now:
                actions += self._fire(self._plan, now)
                due = self._deadline
        elif self._under_way is not None:
            due = self._deadline
            if due <= now:
                actions.append(Miss(self._under_way.round, self._under_way.kind))
                self._under_way, due = None, math.inf
        return [*actions, WakeAt(due)]

    def _fire(self, plan: Planned, now: float) -> list[Action]:
        votes, voting, complaints = self._voters(plan)
        self._plan, self._under_way = None, plan
        self._broken.clear()
        self._fired += 1
        self._fired_at = now
        self._deadline = now + self.settings.deadline_seconds if self.settings.deadline_seconds else math.inf
        return [*complaints, Expect(plan.round, plan.kind, plan.run, voting, votes), Fire(plan.round)]

    def _voters(self, plan: Planned) -> tuple[int | None, tuple[int, ...], list[Complain]]:
        """How many votes the round has, if that is known, and which clients have theirs ready."""
        ready = {
            client: armed.votes
            for client, armed in self._armed.items()
            if _is_for(armed, plan) and armed.votes is not None
        }
        ballot = self._ballot
        if ballot is None or ballot.round != plan.round:
            # Nobody has said how many votes there are: the first client that is armed does, and all others must agree.
            ballot = Ballot(plan.round, next(iter(ready.values()), 0), frozenset(ready))
        complaints = [
            Complain(f"client {client} brings {votes} votes to round {plan.round}, which has {ballot.votes}")
            for client, votes in ready.items()
            if votes != ballot.votes
        ]
        voting = sorted(client for client, votes in ready.items() if client in ballot.clients and votes == ballot.votes)
        return ballot.votes or None, tuple(voting), complaints


def _is_for(armed: Armed, plan: Planned) -> bool:
    return armed.round == plan.round and armed.run in (None, plan.run)
