# SPDX-License-Identifier: GPL-3.0-or-later
"""Define when clients answer a trigger and what clients and server must agree on before a round.

Times are in samples after the trigger's first sample. The server expects every answer ``answer_samples`` after its own
trigger. There are two kinds of rounds:

- *payload*: all clients answer at once with a frame (``frame``). Each client's sync symbols have its own cyclic shift.
- *acquire*: each client with an unknown sample offset answers with its own sequence (``client_sequence``), in the
  middle of a slot that is wide enough for any offset. A few clients share a slot; their roots tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.schemes import Scheme, scheme_named
from oac_blocks.dsp.waveform.shared_slot import max_clients

Kind = Literal["payload", "acquire"]
KINDS: tuple[Kind, ...] = ("payload", "acquire")
# Names, in messages and in a config's [air], of the numbers that all radios of a bench and the application must share.
AGREED = ("sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls", "repeats", "groups")


@dataclass(frozen=True)
class RoundLayout:
    """Parameters of a round that clients and server share."""

    num: Numerology = field(default_factory=Numerology)
    clients: int = 2
    repeats: int = 1  # pairs of subcarriers that carry each vote
    groups: int = 4  # groups into which the payload is split, each behind a sync symbol
    answer_samples: int = 131_072
    slot_samples: int = 8192  # width of an acquisition slot; sample offsets up to half of it are found
    clients_per_slot: int = 4
    scheme: Scheme = field(
        default_factory=lambda: scheme_named("onebit")
    )  # scheme of the payload; it compares energies

    def __post_init__(self) -> None:
        integer("clients", self.clients, 1, max_clients(self.num))
        integer("repeats", self.repeats, 1)
        integer("groups", self.groups, 1)
        integer("answer_samples", self.answer_samples, 0)
        integer("clients_per_slot", self.clients_per_slot, 1)
        least = 4 * self.num.symbol_samples
        integer("slot_samples", self.slot_samples, least)
        require(self.slot_samples % 2 == 0, "slot_samples", self.slot_samples, "even")
        # Clients of a frame know neither their channel nor their phase.
        require(not self.scheme.coherent, "scheme", repr(self.scheme.name), "one that compares energies")

    def frame(self, votes: int) -> FrameLayout:
        """Return the frame that carries this many votes."""
        return FrameLayout(self.scheme.symbols_needed(votes, self.num, self.repeats), self.num, self.groups)

    def answer_at(self, trigger_sample: float) -> int:
        """Return the sample nearest to the nominal arrival of the answers to a trigger that arrived at this time."""
        return round(trigger_sample) + self.answer_samples

    def agreed(self) -> dict[str, float | int]:
        """Return the numbers named by ``AGREED``, as messages carry them."""
        return {**self.num.to_dict(), "repeats": self.repeats, "groups": self.groups}

    @property
    def slots(self) -> int:
        """Return the number of slots in an acquire round."""
        return -(-self.clients // self.clients_per_slot)

    def slot_of(self, client: int) -> int:
        """Return the slot in which a client answers."""
        return integer("client", client, 0, self.clients - 1) // self.clients_per_slot

    def clients_in_slot(self, slot: int) -> range:
        """Return the clients that answer in a slot."""
        first = integer("slot", slot, 0, self.slots - 1) * self.clients_per_slot
        return range(first, min(first + self.clients_per_slot, self.clients))

    def sequence_start_samples(self, client: int) -> int:
        """Return the first sample (of the prefix) of a client's own sequence, counted from ``answer_samples``."""
        return self.slot_of(client) * self.slot_samples + self.slot_samples // 2

    @property
    def acquisition_samples(self) -> int:
        """Return the length of all slots together in samples."""
        return self.slots * self.slot_samples


def agreed_in(message: Mapping[str, Any]) -> dict[str, float | int]:
    """Return the ``AGREED`` numbers that a message carries."""
    return {name: message[name] for name in AGREED if isinstance(message.get(name), int | float)}


def disagreements(own: Mapping[str, float], told: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the ``AGREED`` numbers that differ, each with its own value and the value in the message."""
    return {
        name: (own[name], told[name])
        for name in AGREED
        if name in own and name in told and not math.isclose(own[name], told[name], rel_tol=1e-9)
    }
