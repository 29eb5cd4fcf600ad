# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedule faults of simulated radios: which fault, for which client, and in which rounds."""

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
    """A fault that begins in round ``round`` and lasts ``rounds`` rounds. The meaning of ``value`` depends on ``kind``:

    - ``miss``: the client does not detect the trigger;
    - ``false_trigger``: the client detects a trigger ``value`` samples off;
    - ``vanish``: the client neither receives nor transmits;
    - ``jump``: the client's transmit stream slips by ``value`` samples without notice;
    - ``gap``: the client's stream slips by ``value`` samples, and the client reports it;
    - ``clock_step``: the rate of the client's clock changes by ``value`` ppm permanently;
    - ``interferer``: noise at the server, ``value`` dB above a unit subcarrier (``client`` is ignored);
    - ``echoes``: the client has multipath with a delay spread of ``value`` samples and new fading in each round.
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
        """Return the faults of this kind that act in a round."""
        return [fault for fault in self._faults if fault.kind == kind and fault.active(round_)]
