# SPDX-License-Identifier: GPL-3.0-or-later
"""What the round engine is told, and what it tells its transport to do."""

from __future__ import annotations

from dataclasses import dataclass

from oac_blocks.dsp.waveform.round_layout import Kind


@dataclass(frozen=True)
class Planned:
    """The calibration loop has planned the coming round. The round before it is over."""

    round: int
    kind: Kind
    run: int = 0  # another number after a new start of the server, which counts its rounds from 0 again


@dataclass(frozen=True)
class Armed:
    """A client has all that it needs for a round: its order, and its payload if it has one to send."""

    client: int
    round: int
    votes: int | None = None  # number of votes in its payload; None if it sends none
    run: int | None = None  # None stands for any run


@dataclass(frozen=True)
class Broke:
    """A client's stream broke, its radio is gone, or it was started anew: it cannot take part in the coming round."""

    client: int


@dataclass(frozen=True)
class Ballot:
    """An application has said how many votes a round has, and which clients take part in it."""

    round: int
    votes: int
    clients: frozenset[int]
    run: int | None = None  # None stands for the present run


@dataclass(frozen=True)
class Ended:
    """The server has heard a round to its end, or knows that it will not."""

    round: int


@dataclass(frozen=True)
class Woken:
    """Time has passed."""


Event = Planned | Armed | Broke | Ballot | Ended | Woken


@dataclass(frozen=True)
class AskForPayloads:
    """Ask the applications for the payloads of this round."""

    round: int
    run: int
    seconds: float  # how long the engine waits for them; 0 for ever


@dataclass(frozen=True)
class Expect:
    """Tell the server's receiver what the next trigger begins."""

    round: int
    kind: Kind
    run: int
    voting: tuple[int, ...]  # clients that take part and have their votes ready
    votes: int | None = None  # number of votes of the round; None if nobody has said it


@dataclass(frozen=True)
class Fire:
    """Send the trigger of this round."""

    round: int


@dataclass(frozen=True)
class Miss:
    """Give this round up: nothing was heard of it before its deadline, not even the server's own trigger."""

    round: int
    kind: Kind


@dataclass(frozen=True)
class Complain:
    """Count and log something that cannot be used."""

    reason: str


@dataclass(frozen=True)
class WakeAt:
    """Send ``Woken`` at this time, unless another event comes before. Infinity: there is nothing to wait for."""

    time: float


Action = AskForPayloads | Expect | Fire | Miss | Complain | WakeAt
