# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that a schedule gives to simulated radios: which one, for which client, and in which rounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from oac_blocks.dsp.checks import integer, real, require

FaultKind = Literal["miss", "false_trigger", "vanish", "jump", "gap", "clock_step", "interferer", "echoes"]
FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)
_LASTING: frozenset[FaultKind] = frozenset({"miss", "false_trigger", "vanish", "interferer", "echoes"})


@dataclass(frozen=True)
class Fault:
    """A fault from round ``round`` on, for ``rounds`` rounds. The meaning of ``value`` depends on ``kind``:

    - ``miss``: the client does not hear the trigger;
    - ``false_trigger``: it takes something else for it, ``value`` samples off;
    - ``vanish``: it neither hears nor says anything;
    - ``jump``: its transmit stream slips by ``value`` samples, and nobody notices;
    - ``gap``: its stream slips by ``value`` samples, and it says so;
    - ``clock_step``: its clock's rate changes by ``value`` ppm, for good;
    - ``interferer``: noise at the server, ``value`` dB above a unit subcarrier (``client`` does not matter);
    - ``echoes``: its echoes have a delay spread of ``value`` samples, and fade anew in each round.
    """

    round: int
    client: int
    kind: FaultKind
    value: float = 0.0
    rounds: int = 1

    def __post_init__(self) -> None:
        integer("round", self.round, 0)
        integer("client", self.client, 0)
        integer("rounds", self.rounds, 1)
        require(self.kind in FAULTS, "kind", repr(self.kind), f"one of {', '.join(FAULTS)}")
        real("value", self.value)

    def active(self, round_: int) -> bool:
        """Return whether the fault acts in this round. Lasting kinds act in all their rounds, the others once."""
        return self.round <= round_ < self.round + (self.rounds if self.kind in _LASTING else 1)


class FaultSchedule:
    """The faults of a simulation, by round."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = tuple(faults)

    def clients(self) -> int:
        """Return the least number of clients that the faults need."""
        return 1 + max((fault.client for fault in self._faults), default=-1)

    def now(self, round_: int, kind: FaultKind) -> list[Fault]:
        return [fault for fault in self._faults if fault.kind == kind and fault.active(round_)]
