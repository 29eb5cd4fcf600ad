# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a burst after a round of the radios: it counts, it is played again, or it is given up.

One rule for all airs with radios:

- a round counts only if it carried all entries, and the payloads of at least ``min_clients`` of the clients that take
  part (of all of them, if fewer take part);
- a round that lacks a client whose radio was able to transmit is played again, at most ``partial_rounds`` times;
- a client whose radio was not able to transmit (it is not calibrated, or it is gone) is not waited for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from oac_blocks.dsp.checks import integer, real

PARTIAL_ROUNDS = 3
Verdict = Literal["accept", "play again", "give up"]


class Judgement(NamedTuple):
    """A verdict on a burst, and a sentence if it is given up."""

    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class DeliveryRules:
    """When a burst counts, and how long it is tried.

    Parameters
    ----------
    min_clients : int
        Fewest clients whose payload must be in a burst.
    partial_rounds : int
        Rounds that are played again because a client able to transmit is missing.
    most_rounds : int
        Rounds of the radios before a burst is given up; 0 is no limit.
    most_seconds : float
        Seconds before a burst is given up; 0 is no limit.
    """

    min_clients: int = 1
    partial_rounds: int = PARTIAL_ROUNDS
    most_rounds: int = 0
    most_seconds: float = 0.0

    def __post_init__(self) -> None:
        integer("min_clients", self.min_clients, 1)
        integer("partial_rounds", self.partial_rounds, 0)
        integer("most_rounds", self.most_rounds, 0)
        real("most_seconds", self.most_seconds, 0.0)


class Delivery:
    """One burst: ``entries`` of the payload of each of ``clients``, round after round until one counts."""

    def __init__(self, clients: Collection[int], entries: int, rules: DeliveryRules) -> None:
        self._clients, self._entries, self._rules = frozenset(clients), integer("entries", entries, 1), rules
        self._needed = max(1, min(rules.min_clients, len(self._clients)))
        self._rounds = self._partial = 0
        self._most_heard = 0

    def judge(self, heard: Collection[int], entries: int, able: Collection[int], seconds: float = 0.0) -> Judgement:
        """Judge a round of the radios that is over.

        Parameters
        ----------
        heard : collection of int
            Clients whose payload the server has heard.
        entries : int
            Entries that the server has received; 0 if it received nothing.
        able : collection of int
            Clients whose radio was able to transmit when the round began, as far as is known.
        seconds : float
            Time since the burst was begun.
        """
        self._rounds += 1
        present = self._clients.intersection(heard) if entries == self._entries else frozenset()
        self._most_heard = max(self._most_heard, len(present))
        if len(present) < self._needed:
            return self.wait(seconds)
        if self._clients.intersection(able) <= present or self._partial == self._rules.partial_rounds:
            return Judgement("accept")
        self._partial += 1
        return Judgement("play again")

    def wait(self, seconds: float) -> Judgement:
        """Judge a burst so many seconds after it was begun, with no round that counts so far."""
        rules = self._rules
        rounds_over = 0 < rules.most_rounds <= self._rounds
        if not rounds_over and not 0 < rules.most_seconds < seconds:
            return Judgement("play again")
        spent = f"{self._rounds} rounds of the radios" if rounds_over else f"{seconds:.0f} s"
        if self._needed == 1:
            return Judgement("give up", f"no votes came through in {spent}")
        most = f"the votes of at most {self._most_heard} clients" if self._most_heard else "no votes"
        return Judgement("give up", f"{most} came through in {spent}, and min_clients is {self._rules.min_clients}")
